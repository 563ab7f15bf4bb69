"""What is known of trackers: which of their calls only log, which begin or end a run, and what is odd about each.

mlflow keeps the active run by thread, trackio in a context variable, wandb and tensorboard in plain objects.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ENDS",
    "OF_RUN",
    "OPENS",
    "RETURNS",
    "active_run",
    "describe",
    "end_service",
    "ending",
    "kind_of",
    "logs",
    "perform",
]

# Calls whose answer nobody needs: queued. Any `add_...` is one too (tensorboard), so is any other `log_...` not named below.
LOGS = frozenset({"log", "alert", "define_metric", "set_tag", "set_tags", "flush", "track"})
# They begin a run, and talk to a server for it.
OPENS = frozenset({"init", "start_run", "set_experiment", "create_experiment", "login", "attach"})
ENDS = frozenset({"finish", "close", "end_run", "end", "stop", "__exit__"})
# They send something and give something back, or ask for what belongs to the thread that sends.
RETURNS = frozenset(
    {"log_artifact", "log_artifacts", "log_model", "log_code", "active_run", "last_active_run", "get_artifact_uri"}
)
# What a tracker's module has only while there is a run. Not what fetches: to train without one's data is worse than to stop.
OF_RUN = frozenset(
    {"config", "summary", "run", "watch", "unwatch", "save", "link_artifact", "link_model", "mark_preempting"}
)
KINDS = {"wandb": "finish", "trackio": "finish", "mlflow": "end_run", "tensorboard": "close"}


def kind_of(tracker: object) -> str:
    """wandb, mlflow, trackio, tensorboard, or the name of its type."""
    module = tracker.__name__ if isinstance(tracker, ModuleType) else type(tracker).__module__
    if "tensorboard" in module:
        return "tensorboard"
    first = module.partition(".")[0]
    if first in KINDS:
        return first
    return module if isinstance(tracker, ModuleType) else type(tracker).__name__


def logs(name: str) -> bool:
    """Whether a call of this name only logs."""
    return name in LOGS or (name.startswith(("log_", "add_")) and name not in RETURNS)


def ending(kind: str) -> str | None:
    """What must be called at the end so that the last rows arrive."""
    return KINDS.get(kind)


def active_run(kind: str) -> Any:  # noqa: ANN401 - an id
    """The run of mlflow that is active in the thread that asks."""
    mlflow = sys.modules.get("mlflow") if kind == "mlflow" else None
    run = mlflow.active_run() if mlflow is not None else None
    return None if run is None else run.info.run_id


def perform(target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: str | None) -> Any:  # noqa: ANN401
    """Make the call; one of mlflow for the run that was active where the program made it."""
    if run is not None and isinstance(target, ModuleType) and active_run("mlflow") != run:
        if _takes_run(getattr(target, name)):
            kwargs = {"run_id": run, **kwargs}
        elif logs(name) and hasattr(target.MlflowClient, name):
            return getattr(target.MlflowClient(), name)(run, *args, **kwargs)
    if name == "add_figure" and hasattr(args[1] if len(args) > 1 else kwargs.get("figure"), "__array_interface__"):
        return _picture(target, args, kwargs)
    if name == "log" and kind_of(target) == "wandb" and args and isinstance(args[0], dict):
        args = ({key: _for_wandb(value) for key, value in args[0].items()}, *args[1:])
    return getattr(target, name)(*args, **kwargs)


@lru_cache(maxsize=256)
def _takes_run(function: Callable[..., Any]) -> bool:
    try:
        return "run_id" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _picture(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - a writer
    """A figure arrives as the pixels that were drawn when it was logged."""
    names = ("tag", "figure", "global_step")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return target.add_image(given["tag"], given["figure"][..., :3], given.get("global_step"), dataformats="HWC")


def _for_wandb(value: Any) -> Any:  # noqa: ANN401 - whatever is logged
    """Pixels of a figure as a picture; wandb makes a histogram of other arrays itself."""
    shape: Any = getattr(value, "shape", ())
    if hasattr(value, "__array_interface__") and len(shape) == 3 and shape[2] == 4 and str(value.dtype) == "uint8":  # noqa: PLR2004
        return sys.modules["wandb"].Image(value)
    return value


def describe(kind: str, run: object) -> dict[str, Any]:
    """Where the rows belong: names only, no keys and no settings."""
    about: dict[str, Any] = {"kind": kind}
    for name in ("id", "name", "project", "entity", "log_dir", "group"):
        value = getattr(run, name, None)
        if isinstance(value, str):
            about[name] = value
    info = getattr(run, "info", None)
    if isinstance(getattr(info, "run_id", None), str):
        about["id"] = info.run_id  # type: ignore[union-attr]
    return about


def end_service() -> None:
    """End wandb's own process when it does not end in time: it would keep our output open, and `train.py | tee` would wait.

    What it had not sent lies in its run folder, for `wandb sync`.
    """
    for task in _listed("/proc/self/task"):
        for child in _read(f"/proc/self/task/{task}/children").split():
            if _read(f"/proc/{child}/comm").startswith("wandb-core"):
                with suppress(OSError):
                    os.kill(int(child), signal.SIGKILL)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
