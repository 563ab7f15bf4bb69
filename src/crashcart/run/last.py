"""The end of a run: what is left of it, why it ended, and a summary of a few lines."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

from crashcart.errors import our_errors
from crashcart.flight import took
from crashcart.readers.run_logs import by_last_word
from crashcart.recording.folder import write_json
from crashcart.run.exit import free_reserve
from crashcart.run.status import decoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from crashcart.run.supervisor import Supervisor

__all__ = ["finish"]

_FATAL = b"Fatal Python error"
_LONGEST = 1 << 20
_SHORT = 1 << 16
_EARLIER = 60  # seconds before the start that may still matter
_PATIENCE = 3.0
_MOST_STAGES = 6
_STATES = {
    "crashed": "failed",
    "killed": "killed",
    "hung": "hung",
    "stopped": "stopped",
    "finished": "finished",
}  # as `runs` says them
_ANSWER_SECONDS, _SHORT_ANSWER_SECONDS = 60.0, 10.0  # for the answer, after a bad end and after a good one
_POLL_SECONDS = 0.1
_DETACHED = 2.0  # seconds that processes which outlive the job get to end by themselves


def finish(job: Supervisor, folder: str, status: int) -> None:
    """Write down how it ended and tell it; after a death the answer of ``why`` is already there."""
    code, name = decoded(status)
    left = _left_behind(job)
    free_reserve(folder)
    job.writer.event("end", code=code, signal=name, left=left)
    job.pages.look(last=True)
    _keep_fatal_stacks(job)
    asked = job.stopping.asked or (job.interrupted and name == "SIGINT")
    state = "finished" if not status else "stopped" if asked else "killed" if name else "failed"
    logs = by_last_word(os.path.join(folder, "logs"))
    job.facts |= {
        "state": state,
        "code": code,
        "signal": name,
        "ended": time.time(),
        "left": left,
        "logs": logs,
        "lost": job.lost,
    }
    if job.folder is not None:
        write_json(os.path.join(job.folder, "run.json"), job.facts)
    if status or job.ended_badly:
        _keep_kernel_log(job)
    answer = _answer(job, folder) if job.folder is not None else {}
    _take_over_state(job, answer)
    verdict = _verdict(job, folder, answer)
    _summary(job, code, name, answer, verdict)
    _tell_left(job, left)
    job.notifier.tell("end" if job.facts["state"] == "finished" else "death", {"code": code, "signal": name, **verdict})
    job.notifier.finish()
    if job.live and job.folder is not None:
        shutil.rmtree(job.live, ignore_errors=True)


def _keep_fatal_stacks(job: Supervisor) -> None:
    """The stacks that processes wrote themselves when a fatal signal hit them."""
    kept = 0
    for page in job.pages.pages.values():
        with contextlib.suppress(OSError):
            with open(os.path.join(page.folder, page.name + ".stacks"), "rb") as file:
                text = file.read(_LONGEST)
            if _FATAL in text and job.folder is not None:
                inner = os.path.join(job.folder, "stacks", "fatal-signal")
                os.makedirs(inner, mode=0o700, exist_ok=True)
                with open(os.path.join(inner, f"process-{page.pid}.txt"), "wb") as file:
                    file.write(text[text.index(_FATAL) :])
                kept += 1
    if kept:
        job.writer.event("stacks", reason="a fatal signal", folder="stacks/fatal-signal", processes=kept)


def _keep_kernel_log(job: Supervisor) -> None:
    """What the kernel said while the job ran, where a user may read it; the day is in each line, so that clocks can be compared."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.facts["started"] - _EARLIER))
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603 - with words of ours
            ["dmesg", "--time-format", "iso", "--since", since],  # noqa: S607 - wherever the system has it
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode == 0 and done.stdout.strip() and job.folder is not None:
            with open(os.path.join(job.folder, "kernel.log"), "wb") as file:
                file.write(done.stdout[-(_LONGEST if not _incomplete(job) else _SHORT) :])


def _incomplete(job: Supervisor) -> bool:
    """Whether the disk had no room for all that was to be kept."""
    return bool(job.lost or job.writer.lost)


def _left_behind(job: Supervisor) -> list[dict[str, Any]]:
    """Processes of the job that are still there."""
    if job.sampler is None:
        return []
    # Whoever has asked the job to end may kill what takes long.
    deadline = time.monotonic() + (0.0 if job.stopping.asked and not job.stopping.by_us else _DETACHED)
    while True:
        job.sampler.tree.look(fresh=True)
        left = [process for process in job.sampler.tree.processes.values() if not process.gone and process.fields[0] != b"Z"]
        if not left or time.monotonic() > deadline:
            return [
                {"pid": process.pid, "role": process.role, "command": process.command, "gpu": job.held_by(process.pid)}
                for process in left
            ]
        time.sleep(0.1)


def _answer(job: Supervisor, folder: str) -> dict[str, Any]:
    """What ``why`` says, written into the run folder.

    It is worked out in a process of its own: whoever waits for the job's exit code must not wait long for our explanation, nor
    lose the one by the other.
    """
    explain = job.options.explain
    if explain is None:
        return {}
    ours, theirs = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        return {}
    if child == 0:
        with contextlib.suppress(BaseException), our_errors("the answer", _sayer(job)):
            data = explain(folder)
            kept = {name: value for name, value in data.items() if name != "headline"}
            write_json(os.path.join(folder, "findings.json"), kept)
            with open(theirs, "wb") as pipe:
                pipe.write(json.dumps(data).encode())
        os._exit(0)
    os.close(theirs)
    text = _read_until(ours, job, _ANSWER_SECONDS if job.status or job.ended_badly else _SHORT_ANSWER_SECONDS)
    os.close(ours)
    if text is None:
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
        if job.status or job.ended_badly:
            job.say("the diagnosis was not ready in time. To see it: crashcart why")
    os.waitpid(child, 0)
    with contextlib.suppress(ValueError):
        data = json.loads(text or b"")
        return data if isinstance(data, dict) else {}
    return {}


def _sayer(job: Supervisor) -> Callable[[str, str, str], None]:
    """Tells the user of an error of ours; that the disk is full is told elsewhere."""
    return lambda what, why, how: job.say(f"{what} failed: {why} ({how})") if how else None


def _read_until(pipe: int, job: Supervisor, seconds: float) -> bytes | None:
    """All that is written to a pipe; nothing if its end does not come in time, or somebody urges us."""
    deadline = time.monotonic() + seconds
    text = b""
    while not job.is_urged() and time.monotonic() < deadline:
        if select.select([pipe], [], [], _POLL_SECONDS)[0]:
            piece = os.read(pipe, _LONGEST)
            if not piece:
                return text
            text += piece
    return None


def _take_over_state(job: Supervisor, answer: dict[str, Any]) -> None:
    """The outcome of the work: a script that ends with 0 after its training failed has not finished.

    And a launcher that ends with 1 after Ctrl-C, or a script whose last `cp` failed after the training, have not failed.
    """
    state = _STATES.get(answer.get("ending", {}).get("state"))
    if state is not None and (job.facts["state"] == "finished" or state in {"finished", "stopped"}):
        job.facts["state"] = state
        if job.folder is not None:
            write_json(os.path.join(job.folder, "run.json"), job.facts)


def _verdict(job: Supervisor, folder: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The first finding; nothing where nothing is wrong."""
    first = answer["findings"][0] if answer.get("findings") else None
    if first is None or (job.facts["state"] == "finished" and first["role"] != "cause"):
        return {}
    rank = answer["ending"].get("first_rank")
    return {
        "says": answer.get("headline", ""),
        "cause": first["cause"],
        "title": first["title"],
        "rank": rank,
        "run": folder,
    }


def _stage_words(stage: dict[str, Any]) -> str:
    """`train.py (2 ranks) crashed with exit code 1`."""
    ending, ranks = stage["ending"], stage["ranks"]
    how = (
        f" by {ending['signal']}"
        if ending["signal"]
        else f" with exit code {ending['exit_code']}"
        if ending["exit_code"]
        else ""
    )
    name = f"{stage['program']} {stage.get('arguments', '')}".strip()
    return name + (f" ({ranks} ranks)" if ranks > 1 else "") + f" {ending['state']}{how}"


def _summary(job: Supervisor, code: int | None, name: str | None, answer: dict[str, Any], verdict: dict[str, Any]) -> None:
    stages = answer.get("stages") or []
    decided = next((stage for stage in stages if stage["decided"]), None)
    steps = max((page.whole("steps") or 0 for page in job.pages.ranks), default=0)
    if decided is not None:
        steps = decided["ending"]["optimizer_steps"] or 0
    ended = "finished" if code == 0 else f"killed by {name}" if name else f"exited with code {code}"
    if code == 0 and job.facts["state"] != "finished" and decided is not None:
        ended = f"the command exited with code 0, but {_stage_words(decided)},"
    elif code != 0 and job.facts["state"] == "finished" and decided is not None:
        ended = f"{_stage_words(decided)}, but the command {ended}"
    job.say(
        f"{ended} after {took(time.time() - job.facts['started'])}" + (f", {steps} optimizer steps" if steps else "") + "."
    )
    if len(stages) > 1:
        more = f"{len(stages) - _MOST_STAGES} more; " if len(stages) > _MOST_STAGES else ""
        job.say(f"stages: {more}{'; '.join(map(_stage_words, stages[-_MOST_STAGES:]))}.")
    if _incomplete(job):
        job.say(
            f"the recording is incomplete, because the disk is full: {job.lost} bytes of the log and {job.writer.lost} records are missing."
        )
    if job.unread:
        job.say(f"its {job.unread} was closed by its reader, as `head` does; the job was notified as usual.")
    elif verdict:
        job.say(f"{verdict['says']} ({verdict['cause']}) For details: crashcart why")


def _tell_left(job: Supervisor, left: list[dict[str, Any]]) -> None:
    for one in left:
        held = f" and holds {one['gpu'] / (1 << 30):.1f} GB of GPU memory" if one["gpu"] else ""
        job.say(f"process {one['pid']} ({one['role']}) of the job is still running{held}: {str(one['command'])[:60]}")
