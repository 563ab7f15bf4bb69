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
from crashcart.numbers import to_count, to_float, to_int
from crashcart.record import field, record
from crashcart.regular_files import names_in, read_end, read_start

__all__ = ["MlRun", "WandbSummary", "mlrun_status", "wandb_summary"]

MAX_BYTES = 8 << 20
MAX_METRICS = 200

_STATUS = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}


@record(frozen=True)
class WandbSummary:
    """The last values that wandb wrote; ``last_write`` is Unix time, ``runtime_seconds`` counts from the start."""

    step: int | None = None
    last_write: float | None = None
    runtime_seconds: float | None = None
    values: dict[str, float] = field(default_factory=dict)


@record(frozen=True)
class MlRun:
    """An MLflow run: its status in words, its times in Unix seconds, the last (step, value) of each metric."""

    status: str
    start: float | None = None
    end: float | None = None
    run_id: str = ""
    metrics: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def step(self) -> int | None:
        """The last step of any metric."""
        return max((step for step, _ in self.metrics.values()), default=None)


def wandb_summary(path: str | os.PathLike[str]) -> WandbSummary | None:
    """Read ``wandb-summary.json``; None when it is not one (too large, cut off, not an object)."""
    try:
        content = load_json(_limited(path))
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    numbers = {str(key): value for key, value in content.items() if isinstance(value, (int, float))}
    values = {key: number for key, value in numbers.items() if (number := to_float(value, finite=False)) is not None}
    step, timestamp, runtime = (to_float(values.pop(name, None)) for name in ("_step", "_timestamp", "_runtime"))
    return WandbSummary(to_int(step), timestamp, runtime, values)


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
    status = _STATUS.get(meta["status"], meta["status"])
    run_id = meta.get("run_id") or meta.get("run_uuid", "")
    return MlRun(status, _milli(meta.get("start_time")), _milli(meta.get("end_time")), run_id, _metrics(folder))


def _metrics(folder: str) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    inner = os.path.join(folder, "metrics")
    for name in names_in(inner)[:MAX_METRICS]:
        value = _last_value(os.path.join(inner, name))
        if value is not None:
            found[name] = value
    return found


def _last_value(path: str) -> tuple[int, float] | None:
    try:
        lines = read_end(path, 512)[0].decode("ascii", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        _, number, step, *_ = [*line.split(), "", "", ""]
        found = to_int(step), to_float(number, finite=False)
        if found[0] is not None and found[1] is not None:  # else it is the line that was being written
            return found[0], found[1]
    return None


def _limited(path: str | os.PathLike[str]) -> str:
    content = read_start(path, MAX_BYTES + 1)
    return content.decode("utf-8", "replace") if len(content) <= MAX_BYTES else ""


def _milli(text: str | None) -> float | None:
    number = to_count(text)
    return None if number is None else number / 1000
