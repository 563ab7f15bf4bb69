"""What trackers keep on disk about how far a run came: wandb's summary, MLflow's run folder.

wandb writes the newest value of everything that was logged, in a file of its own, while the run goes on::

    wandb/run-20261115_071203-a1b2c3d4/files/wandb-summary.json
    {"loss": 0.113, "_timestamp": 1794734650.6, "_runtime": 8519.2, "_step": 1999, "_wandb": {"runtime": 8519}}

MLflow's file store has a folder for each run, ``mlruns/<experiment>/<run>``, with a flat ``meta.yaml`` and a file for
each metric, a line for each value: milliseconds, value, step. A run that was killed stays RUNNING with ``end_time:
null``. ::

    end_time: null                        1794734650612 0.113 1999
    run_id: 3f2a9c...
    start_time: 1794726131000
    status: 1
"""

from __future__ import annotations

import os

from crashcart.documents import load_json
from crashcart.numbers import to_float, to_int
from crashcart.record import record
from crashcart.regular_files import names_in, read_end, read_start

__all__ = ["MlRun", "mlrun_status", "wandb_step"]

MAX_BYTES = 8 << 20
MAX_METRICS = 200

_STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}


@record(frozen=True)
class MlRun:
    """An MLflow run: its status in words, and the last step of any metric."""

    status: str
    step: int | None


def wandb_step(path: str | os.PathLike[str]) -> int | None:
    """The last step in ``wandb-summary.json``; None when it is not one (too large, cut off, not an object)."""
    try:
        content = load_json(_limited(path))
    except ValueError:
        return None
    return to_int(to_float(content.get("_step"))) if isinstance(content, dict) else None


def mlrun_status(path: str | os.PathLike[str]) -> MlRun | None:
    """Read the run in a folder of MLflow's file store, or of the ``meta.yaml`` in it; None when it is not one."""
    given = os.fspath(path)
    folder = os.path.dirname(given) if given.endswith("meta.yaml") else given
    lines = _limited(os.path.join(folder, "meta.yaml")).splitlines()
    meta = {
        key.strip(): value.strip().strip("'\"") for key, colon, value in (line.partition(":") for line in lines) if colon
    }
    if "status" not in meta:
        return None
    metrics = os.path.join(folder, "metrics")
    steps = [_last_step(os.path.join(metrics, name)) for name in names_in(metrics)[:MAX_METRICS]]
    return MlRun(
        _STATUS.get(meta["status"], meta["status"]), max((step for step in steps if step is not None), default=None)
    )


def _last_step(path: str) -> int | None:
    try:
        lines = read_end(path, 512)[0].decode("ascii", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        _, number, step, *_ = [*line.split(), "", "", ""]
        if to_int(step) is not None and to_float(number, finite=False) is not None:  # else it was being written
            return to_int(step)
    return None


def _limited(path: str | os.PathLike[str]) -> str:
    content = read_start(path, MAX_BYTES + 1)
    return content.decode("utf-8", "replace") if len(content) <= MAX_BYTES else ""
