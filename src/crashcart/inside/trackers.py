"""Calls to experiment trackers: how many, how long; the slow ones by name, since some wait for a server without end."""

from __future__ import annotations

from typing import Any

from . import events, page, patching, phases

_SLOW = 1.0
_ALWAYS = ("init", "finish", "start_run", "end_run")


def install(module: Any) -> None:
    """Wrap what the module logs with."""
    library = module.__name__.partition(".")[0]
    if module.__name__ == "wandb.sdk.wandb_init":
        _wrap(module, ("init",), "wandb")
    elif module.__name__ == "wandb.sdk.wandb_run":
        _wrap(module.Run, ("log", "finish", "log_artifact", "save"), "wandb")
    elif library == "mlflow":
        names = [name for name in vars(module) if name.startswith("log_")]
        _wrap(module, (*names, "start_run", "end_run", "set_experiment"), "mlflow")
    else:
        names = [name for name in vars(module.SummaryWriter) if name.startswith("add_")]
        _wrap(module.SummaryWriter, (*names, "flush", "close"), "tensorboard")


def _wrap(owner: Any, names: tuple[str, ...], library: str) -> None:
    for name in names:
        patching.replace(owner, name, patching.within(phases.TRACKER, _counted(library, name)))


def _counted(library: str, name: str) -> Any:
    def done(args: Any, kwargs: Any, seconds: float) -> None:  # noqa: ARG001
        page.add("tracker_calls")
        page.add("tracker_seconds", seconds)
        if seconds > _SLOW or name in _ALWAYS:
            events.write("tracker", call=library + "." + name, seconds=round(seconds, 3))

    return done
