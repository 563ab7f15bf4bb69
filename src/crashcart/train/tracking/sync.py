"""Send later what a tracker missed: `python -m crashcart.train.tracking.sync FOLDER`, or `sync_tracker(folder, tracker)`.

The folder is the local copy of one process, or the one that holds several. A row counts as taken when the tracker's call returned;
one whose process was killed in that very moment is sent twice.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from crashcart.train.tracking.copy import LocalCopy, rows, sent
from crashcart.train.tracking.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["sync_tracker"]

PICTURES = (".png", ".jpg", ".jpeg", ".gif")


def sync_tracker(folder: str | os.PathLike[str], tracker: Any, *, everything: bool = False) -> int:  # noqa: ANN401 - any tracker
    """Make the calls again that the tracker did not take, in their order; gives how many it took now.

    everything: all rows, into a fresh run; wandb takes no step that lies before one it has.
    """
    count = 0
    for copy in copies(os.fspath(folder)):
        done = set() if everything else sent(copy)
        note = LocalCopy.at(copy)
        for row in rows(copy):
            if row["n"] in done:
                continue
            args, kwargs = _read(row["args"], copy, kind_of(tracker)), _read(row["kwargs"], copy, kind_of(tracker))
            getattr(tracker, row["call"])(*args, **kwargs)
            note.took([row["n"]])
            count += 1
    return count


def copies(folder: str) -> list[str]:
    """The folder itself, or those in it, that hold rows; oldest first."""
    if os.path.isfile(os.path.join(folder, "rows.jsonl")):
        return [folder]
    inside = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return [one for one in inside if os.path.isfile(os.path.join(one, "rows.jsonl"))]


def _read(value: Any, folder: str, kind: str) -> Any:  # noqa: ANN401 - what was logged
    if isinstance(value, list):
        return [_read(part, folder, kind) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"file"}:
        return _file(os.path.join(folder, value["file"]), kind)
    kept = {key: part for key, part in value.items() if not (isinstance(part, dict) and set(part) == {"not_kept"})}
    return {key: _read(part, folder, kind) for key, part in kept.items()}


def _file(path: str, kind: str) -> Any:  # noqa: ANN401 - an array or a picture
    if path.endswith(".npy"):
        import numpy as np

        return np.load(path)
    if kind == "wandb" and path.endswith(PICTURES):
        return importlib.import_module("wandb").Image(path)
    return path


def _wandb(about: dict[str, Any]) -> Any:  # noqa: ANN401 - its module
    wandb = importlib.import_module("wandb")
    wandb.init(project=about.get("project"), entity=about.get("entity") or None, id=about.get("id"), resume="allow")
    return wandb


def _mlflow(about: dict[str, Any]) -> Any:  # noqa: ANN401 - its module
    mlflow = importlib.import_module("mlflow")
    mlflow.start_run(run_id=about.get("id"))
    return mlflow


def _trackio(about: dict[str, Any]) -> Any:  # noqa: ANN401 - its module
    trackio = importlib.import_module("trackio")
    trackio.init(project=about["project"], name=about.get("name"), resume="allow")
    return trackio


def _tensorboard(about: dict[str, Any]) -> Any:  # noqa: ANN401 - a writer
    return importlib.import_module("torch.utils.tensorboard").SummaryWriter(about["log_dir"])


BEGIN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "wandb": _wandb,
    "mlflow": _mlflow,
    "trackio": _trackio,
    "tensorboard": _tensorboard,
}


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")


def main() -> int:
    """Send what each copy in a folder still holds, to the run that it belongs to."""
    parser = argparse.ArgumentParser(prog="python -m crashcart.train.tracking.sync", description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--everything", action="store_true", help="all rows again, those that the tracker took too")
    options = parser.parse_args()
    try:
        found = copies(options.folder)
    except OSError as error:
        parser.error(f"{options.folder} cannot be read: {error.strerror or error}.")
    if not found:
        parser.error(f"{options.folder} holds no local copy of a tracker (no rows.jsonl in it, nor one folder below).")
    for one in found:
        try:
            with open(os.path.join(one, "run.json"), encoding="utf-8") as file:
                about = json.load(file)
        except (OSError, ValueError):
            about = {}
        if about.get("kind") not in BEGIN or ("id" not in about and "log_dir" not in about and "project" not in about):
            _say(f"{one}: no run is known for it; call crashcart.train.sync_tracker(folder, tracker)")
            return 2
        taken = sent(one)
        if all(row["n"] in taken for row in rows(one)) and not options.everything:
            _say(f"{one}: nothing left to send")
            continue
        _say(f"{one}: {sync_tracker(one, BEGIN[about['kind']](about), everything=options.everything)} rows sent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
