"""How Slurm's accounting says that a job ended: ``sacct``, which any user may ask about own jobs, long afterwards.

::

    JobID|State
    77|TIMEOUT
    77.batch|CANCELLED
    77.0|OUT_OF_MEMORY
"""

from __future__ import annotations

import os
import re
import shutil

from crashcart.model import NotLooked

__all__ = ["sacct"]

_JOB = re.compile(r"\d{1,12}(?:[_+]\d{1,9})?(?:\.\w{1,20})?")


def sacct(job_id: str, *, timeout_seconds: float = 10.0) -> str | NotLooked:
    """How a job ended, in Slurm's word; says why where there is no answer."""
    how, what = (
        f"sacct -j {job_id} --format=JobID,State,ExitCode,MaxRSS,ReqMem,Timelimit",
        f"Slurm accounting of job {job_id}",
    )
    if not _JOB.fullmatch(job_id):
        return NotLooked("Slurm accounting", f"{job_id[:40]!r} is not a job id")
    binary = shutil.which("sacct")
    if binary is None:
        return NotLooked(what, "sacct is not on this machine", f"on a login node: {how}")
    output, why = _ask(binary, job_id, timeout_seconds)
    if why:
        return NotLooked(what, why, how)
    return parse(output) or NotLooked(what, "sacct does not know it", "run it as the user who started the job")


def parse(output: str) -> str | None:
    """The state of the job in the output of ``sacct --parsable2``; None when there is none."""
    lines = output.splitlines()
    header = lines[0].split("|") if lines else []
    job = dict(zip(header, lines[1].split("|"), strict=False)) if len(lines) > 1 and "|" in lines[1] else {}
    return job["State"].strip().rstrip("+") if "State" in job else None


def _ask(binary: str, job: str, timeout_seconds: float) -> tuple[str, str]:
    """Output, and why there is none."""
    import subprocess

    command = [binary, "-j", job, "--parsable2", "--format=JobID,State"]
    environment = {**os.environ, "LC_ALL": "C"}
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
        return "", f"sacct did not respond within {timeout_seconds:g} s"
    except OSError as error:
        return "", f"sacct could not be started: {error.strerror}"
    error_text = done.stderr.decode("utf-8", "replace").strip()
    return done.stdout[: 4 << 20].decode("utf-8", "replace"), error_text[:200] or "sacct failed" if done.returncode else ""
