"""How Slurm's accounting says that a job ended: ``sacct``, which any user may ask about own jobs, long afterwards.

::

    JobID|State|ExitCode|MaxRSS|ReqMem|Timelimit|Elapsed|Start|End|NodeList|Reason
    77|TIMEOUT|0:0||200G|1-00:00:00|1-00:00:12|1794726131|1794812543|gpu[01-02]|None
    77.batch|CANCELLED|0:15|13928044K||||1794726131|1794812545|gpu01|
    77.0|OUT_OF_MEMORY|0:125|209000000K||||1794726140|1794812543|gpu[01-02]|

``ExitCode`` is the code, then the signal. ``MaxRSS`` is sampled every 30 s, so a job that is killed for memory often
shows less than its limit. ``SLURM_TIME_FORMAT=%s`` makes the times Unix seconds. ``Reason`` is unknown to sacct before
20.11.
"""

from __future__ import annotations

import os
import re
import shutil

from crashcart.model import NotLooked
from crashcart.numbers import slurm_seconds, to_count, to_float, whole_product
from crashcart.record import record

__all__ = ["SlurmJob", "SlurmStep", "sacct"]

_FIELDS = ("JobID", "State", "ExitCode", "MaxRSS", "ReqMem", "Timelimit", "Elapsed", "Start", "End", "NodeList")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_JOB = re.compile(r"\d{1,12}(?:[_+]\d{1,9})?(?:\.\w{1,20})?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([nc]?)")


@record(frozen=True)
class SlurmStep:
    """One step of a job, with the largest resident size of a task in it."""

    name: str
    state: str
    exit_code: int | None
    signal: int | None
    max_rss_bytes: int | None


@record(frozen=True)
class SlurmJob:
    """What the accounting says of one job; times are Unix seconds, ``state`` is Slurm's word."""

    job_id: str
    state: str
    exit_code: int | None
    signal: int | None
    required_bytes: int | None
    required_per: str
    limit_seconds: float | None
    elapsed_seconds: float | None
    start: float | None
    end: float | None
    nodes: str
    reason: str
    max_rss_bytes: int | None
    steps: tuple[SlurmStep, ...]
    quote: str


def sacct(job_id: str | int, *, timeout_seconds: float = 10.0) -> SlurmJob | NotLooked:
    """Ask Slurm's accounting about a job; says why where there is no answer."""
    job, how = str(job_id), f"sacct -j {job_id} --format=JobID,State,ExitCode,MaxRSS,ReqMem,Timelimit"
    what = f"Slurm accounting of job {job}"
    if not _JOB.fullmatch(job):
        return NotLooked("Slurm accounting", f"{job[:40]!r} is not a job id")
    binary = shutil.which("sacct")
    if binary is None:
        return NotLooked(what, "sacct is not on this machine", f"on a login node: {how}")
    output, why = _ask(binary, job, (*_FIELDS, "Reason"), timeout_seconds)
    if "nvalid field" in why:
        output, why = _ask(binary, job, _FIELDS, timeout_seconds)
    if why:
        return NotLooked(what, why, how)
    return parse(output) or NotLooked(what, "sacct knows nothing of it", "ask as the user who started the job")


def parse(output: str) -> SlurmJob | None:
    """Read the job in the output of ``sacct --parsable2``; None when there is none."""
    lines = output.splitlines()
    header = lines[0].split("|") if lines else []
    rows = [dict(zip(header, line.split("|"), strict=False)) for line in lines[1:2000] if "|" in line]
    if not rows or "State" not in rows[0]:
        return None
    job, steps = rows[0], tuple(_step(row) for row in rows[1:])
    code, signal = _exit(job.get("ExitCode", ""))
    size, per = _size(job.get("ReqMem", ""))
    return SlurmJob(
        job_id=job.get("JobID", ""),
        state=_state(job),
        exit_code=code,
        signal=signal,
        required_bytes=size,
        required_per={"c": "cpu", "n": "node"}.get(per, "node"),
        limit_seconds=_duration(job.get("Timelimit", "")),
        elapsed_seconds=_duration(job.get("Elapsed", "")),
        start=_number(job.get("Start", "")),
        end=_number(job.get("End", "")),
        nodes=job.get("NodeList", ""),
        reason="" if job.get("Reason") in {None, "None"} else job["Reason"],
        max_rss_bytes=max((step.max_rss_bytes for step in steps if step.max_rss_bytes is not None), default=None),
        steps=steps,
        quote="\n".join(lines[:12]),
    )


def _ask(binary: str, job: str, fields: tuple[str, ...], timeout_seconds: float) -> tuple[str, str]:
    """Output, and why there is none."""
    import subprocess

    command = [binary, "-j", job, "--parsable2", "--format=" + ",".join(fields)]
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - the job id was checked, there is no shell
            command,
            capture_output=True,
            timeout=timeout_seconds,
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "", f"sacct did not answer within {timeout_seconds:g} s"
    except OSError as error:
        return "", f"sacct could not be started: {error.strerror}"
    error_text = done.stderr.decode("utf-8", "replace").strip()
    return done.stdout[: 4 << 20].decode("utf-8", "replace"), error_text[:200] or "sacct failed" if done.returncode else ""


def _step(row: dict[str, str]) -> SlurmStep:
    code, signal = _exit(row.get("ExitCode", ""))
    return SlurmStep(row.get("JobID", ""), _state(row), code, signal, _size(row.get("MaxRSS", ""))[0])


def _state(row: dict[str, str]) -> str:
    return row.get("State", "").strip().rstrip("+")


def _exit(text: str) -> tuple[int | None, int | None]:
    code, _, signal = text.partition(":")
    return to_count(code), to_count(signal) or None


def _size(text: str) -> tuple[int | None, str]:
    match = _SIZE.fullmatch(text.strip())
    return (whole_product(match[1], _UNITS[match[2]]), match[3]) if match else (None, "")


def _duration(text: str) -> float | None:
    return to_float(slurm_seconds(text.partition(".")[0])) if ":" in text else None


def _number(text: str) -> float | None:
    return to_float(to_count(text))
