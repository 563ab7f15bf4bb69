"""Calls that can wait without an end, and whom they wait for: a server, a thread, a queue, a process.

``requests`` and ``urllib`` wait as long as the server keeps the line open; ``httpx`` gives up after five seconds unless it is told
``timeout=None``. A wait that is given a time-out of its own is no such thing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.interpreter.values import Constant, Container, Result, constant_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call
    from crashcart.readers.interpreter.values import Value

__all__ = ["TRACKER_STARTS", "Wait", "is_request", "is_tracker", "sends", "wait_of"]

Wait = Literal["server", "upload", "thread", "queue", "full", "process", "poll"]
_VERBS = ("post", "put", "patch", "get", "delete", "request")
_SESSIONS = ("requests.Session", "requests.session", "requests.sessions.Session")
_REQUESTS = {f"{owner}.{verb}" for owner in ("requests", *_SESSIONS) for verb in _VERBS}
_PATIENT_ONLY_WHEN_TOLD = {f"httpx.{verb}" for verb in _VERBS}
# Where the time-out stands among the arguments.
_OTHER_SERVERS = {
    "urllib.request.urlopen": 2, "smtplib.SMTP": 3, "smtplib.SMTP_SSL": 5, "ftplib.FTP": 4,
}  # fmt: skip
_UPLOADS = {
    "mlflow.log_artifact", "mlflow.log_artifacts", "mlflow.log_model", "mlflow.pytorch.log_model", "mlflow.log_image", "mlflow.log_figure",
    "wandb.restore", "wandb.use_artifact", "wandb.init.use_artifact", "wandb.run.use_artifact", "comet_ml.Experiment.flush",
    "comet_ml.Experiment.end", "neptune.init_run.wait", "neptune.init_run.sync",
}  # fmt: skip
_ARTIFACTS = ("Artifact", "log_artifact", "log_model")
_BESIDE: dict[str, Wait] = {
    **{f"{owner}.wait": "thread" for owner in ("threading.Event", "threading.Condition", "threading.Barrier", "multiprocessing.Event")},
    **{f"{owner}.join": "thread" for owner in ("threading.Thread", "multiprocessing.Process", "torch.multiprocessing.Process")},
    "concurrent.futures.Future.result": "thread",
    "concurrent.futures.wait": "thread",
    "concurrent.futures.as_completed": "thread",
    **{f"{owner}.join": "queue" for owner in ("queue.Queue", "multiprocessing.JoinableQueue", "multiprocessing.Queue")},
    **{f"{owner}.put": "full" for owner in ("queue.Queue", "multiprocessing.Queue", "torch.multiprocessing.Queue")},
    "subprocess.Popen.wait": "process",
    "subprocess.Popen.communicate": "process",
}  # fmt: skip
_RUNS = {
    "os.system",
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.Popen",
}
_SENDS = re.compile(
    r"\b(?:wandb|neptune|clearml|comet|dvclive|aim|hf|huggingface-cli|dvc|git)\b.{0,12}\b(?:sync|upload|push)\b"
    r"|^(?:rsync|scp|rclone|gsutil|azcopy|s5cmd|curl)\b|\baws\b.{0,12}\bs3\b"
)
_TRACKERS = ("wandb.", "mlflow.", "neptune.", "comet_ml.", "clearml.", "swanlab.")
TRACKER_STARTS = ("wandb.init", "mlflow.start_run", "neptune.init_run", "comet_ml.Experiment")


def is_tracker(name: str) -> bool:
    """Whether a call goes to an experiment tracker."""
    return name.startswith(_TRACKERS)


def is_request(name: str) -> bool:
    """Whether a call asks a server."""
    return name in _REQUESTS or name in _PATIENT_ONLY_WHEN_TOLD or name in _OTHER_SERVERS


def wait_of(interpreter: Interpreter, call: Call) -> Wait | None:
    """What a call without a time-out waits for; None where it waits for nothing, or not for ever."""
    if call.function is not None:
        return None
    if is_request(call.name):
        return "server" if _is_patient(interpreter, call) else None
    if call.name in _UPLOADS:
        return "upload"
    if call.method == "wait" and isinstance(call.receiver, Result) and call.receiver.name.rpartition(".")[2] in _ARTIFACTS:
        return "upload" if _has_no_end(call, 0) else None
    if call.name in _RUNS and call.name != "subprocess.Popen":
        return "process" if _has_no_end(call, None) and sends(interpreter, call) else None
    wait = _BESIDE.get(call.name)
    if wait == "full":
        blocks = constant_of(call.argument(1, "block", Constant(True))) is True
        return wait if blocks and _has_no_end(call, 2) and _has_room_for_few(call.receiver) else None
    if call.method in {"wait", "as_completed"} and call.name.startswith("concurrent."):
        return wait if _has_no_end(call, 1) else None
    return wait if wait is not None and _has_no_end(call, 0) else None


def _has_no_end(call: Call, position: int | None) -> bool:
    timeout = call.argument(position, "timeout", Constant(None))
    return isinstance(timeout, Constant) and timeout.value is None


def _is_patient(interpreter: Interpreter, call: Call) -> bool:
    """Whether a request waits as long as the server says nothing."""
    if call.name in _PATIENT_ONLY_WHEN_TOLD:
        timeout = call.argument(None, "timeout")
        return isinstance(timeout, Constant) and timeout.value is None
    if not _has_no_end(call, _OTHER_SERVERS.get(call.name)):
        return False
    if call.name in _OTHER_SERVERS:
        return not interpreter.trace.named("socket.setdefaulttimeout")
    session = call.receiver
    own_end = session is not None and (
        interpreter.peek(session, "request") is not None
        or any(made.receiver is session for made in interpreter.trace.methods("mount"))
    )
    return not own_end


def sends(interpreter: Interpreter, call: Call) -> bool:
    """Whether a program that is started copies something to another machine."""
    return bool(_SENDS.search(_words(interpreter, call.argument(0))))


def _words(interpreter: Interpreter, value: Value | None) -> str:
    if isinstance(value, Container):
        return " ".join(_words(interpreter, item) for item in interpreter.items(value))
    if isinstance(value, Result) and value.name == "text":
        return "".join(_words(interpreter, part) for part in value.data or ())
    plain = constant_of(value)
    return plain if isinstance(plain, str) else ""


def _has_room_for_few(queue: Value | None) -> bool:
    """Whether a queue takes only so many rows."""
    if not isinstance(queue, Result) or queue.call is None:
        return False
    size = queue.argument(0, "maxsize")
    plain = constant_of(size)
    return size is not None and not (isinstance(plain, int) and plain <= 0)
