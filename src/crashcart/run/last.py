"""The end of a run: what is left of it, why it ended, and a summary of a few lines."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from crashcart.flight import took
from crashcart.readers.run_logs import by_last_word
from crashcart.recording.folder import write_json
from crashcart.run.exit import free_reserve
from crashcart.run.status import decoded

if TYPE_CHECKING:
    from crashcart.run.supervisor import Supervisor

__all__ = ["finish"]

_FATAL = b"Fatal Python error"
_LONGEST = 1 << 20
_SHORT = 1 << 16
_EARLIER = 60  # seconds before the start that may still matter
_PATIENCE = 3.0
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
    if status:
        _keep_kernel_log(job)
    verdict = _verdict(job, folder) if job.folder is not None else {}
    _summary(job, code, name, verdict, left)
    job.notifier.tell("death" if status else "end", {"code": code, "signal": name, **verdict})
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


def _verdict(job: Supervisor, folder: str) -> dict[str, Any]:
    """The answer of ``why``, written into the run folder; nothing where nothing is wrong."""
    if job.options.explain is None:
        return {}
    with contextlib.suppress(Exception):  # the job's exit code is worth more than our explanation
        data = job.options.explain(folder)
        said = data.pop("headline", "")
        write_json(os.path.join(folder, "findings.json"), data)
        first = data["findings"][0] if data.get("findings") else None
        if first is not None and (job.facts["state"] != "finished" or first["role"] == "cause"):
            rank = data["ending"].get("first_rank")
            return {"says": said, "cause": first["cause"], "title": first["title"], "rank": rank, "run": folder}
    return {}


def _summary(
    job: Supervisor, code: int | None, name: str | None, verdict: dict[str, Any], left: list[dict[str, Any]]
) -> None:
    steps = max((page.whole("steps") or 0 for page in job.pages.ranks), default=0)
    ended = "finished" if code == 0 else f"ended by {name}" if name else f"ended with exit code {code}"
    job.say(
        f"{ended} after {took(time.time() - job.facts['started'])}" + (f", {steps} optimizer steps" if steps else "") + "."
    )
    if _incomplete(job):
        job.say(
            f"the recording is incomplete: {job.lost} bytes of the log and {job.writer.lost} records found no room on the disk."
        )
    if job.unread:
        job.say(f"the reader of its {job.unread} had gone, as `head` does, and the job got to know, as it would without us.")
    elif verdict:
        job.say(f"{verdict['says']} ({verdict['cause']}) The whole answer: crashcart why")
    for one in left:
        held = f" and holds {one['gpu'] / (1 << 30):.1f} GB of GPU memory" if one["gpu"] else ""
        job.say(f"process {one['pid']} ({one['role']}) of the job is still there{held}: {str(one['command'])[:60]}")
