"""The variables that a job gets from us, and nothing else: where its processes write about themselves, and on which signal.

NCCL's own recorder is switched on from inside, where the version of torch is known; what the user has set stays as it is.
"""

from __future__ import annotations

import os
import signal

from crashcart.inside.layout import FOLDER, JOB, NCCL, SIGNAL

__all__ = ["SITE", "STACK_SIGNAL", "job_environment"]

SITE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inside", "site")
STACK_SIGNAL = int(signal.SIGRTMAX) - 4


def job_environment(folder: str | None, live: str | None, *, inject: bool) -> tuple[dict[str, str], list[str]]:
    """The job's environment, and the names of what we added."""
    environment = dict(os.environ)
    if live is None:
        return environment, []
    environment[JOB] = live
    if not inject:
        return environment, []
    ours = {FOLDER: live, SIGNAL: str(STACK_SIGNAL)}
    path = environment.get("PYTHONPATH")
    ours["PYTHONPATH"] = SITE + (os.pathsep + path if path else "")
    if folder is not None:
        ours[NCCL] = os.path.join(folder, "nccl", "rank_")
    environment |= ours
    return environment, [JOB, *ours]
