"""Values on their way to a tracker: taken cheaply where they are logged, brought to the host and into JSON later, elsewhere.

Taking must not wait for a GPU and must not see what the program does to the value afterwards: numbers are kept as they are,
tensors and arrays are copied where they lie, figures are drawn (matplotlib belongs to one thread).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from importlib import import_module
from typing import Any

__all__ = ["Taken", "settled", "take", "written"]

PLAIN = frozenset({int, float, str, bool, type(None)})
DEEPEST = 12
IN_LINE = 64  # elements of an array that stand in the line; a larger one gets a file
READY_SECONDS = 60.0


class Taken:
    """What taking one call has cost and left to do."""

    __slots__ = ("bytes", "devices", "events")

    def __init__(self) -> None:
        self.bytes = 0
        self.devices: set[Any] = set()
        self.events: list[Any] = []

    def mark(self) -> None:
        """Note the point in each GPU's work after which the copies are there."""
        import torch

        for device in self.devices:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(device))
            self.events.append(event)


def take(value: Any, taken: Taken, depth: int = 0) -> Any:  # noqa: ANN401 - whatever is logged
    """A copy that later changes do not reach, made without waiting; media objects are passed on as they are."""
    kind = type(value)
    if kind in PLAIN or depth > DEEPEST:
        return value
    if isinstance(value, dict):
        return {key: part if type(part) in PLAIN else take(part, taken, depth + 1) for key, part in value.items()}
    if kind in (list, tuple):
        return kind(part if type(part) in PLAIN else take(part, taken, depth + 1) for part in value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _take_tensor(value, taken, torch)
    if hasattr(value, "__array_interface__") and hasattr(value, "copy"):
        taken.bytes += getattr(value, "nbytes", 0)
        return value.copy()
    if kind.__name__ == "Figure" and kind.__module__.startswith("matplotlib") and hasattr(value, "canvas"):
        return _drawn(value, taken)
    return value


def _take_tensor(value: Any, taken: Taken, torch: Any) -> Any:  # noqa: ANN401 - torch need not be there
    value = value.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()  # a DTensor: gathering it here would be a collective of one rank
    if value.device.type == "cpu":
        if value.numel() == 1:
            return value.item()
    elif value.is_cuda:
        if torch.cuda.is_current_stream_capturing():
            return "not kept: logged while a CUDA graph was captured"
        taken.devices.add(value.device)
    taken.bytes += value.numel() * value.element_size()
    return value.clone()


def _drawn(figure: Any, taken: Taken) -> Any:  # noqa: ANN401 - matplotlib need not be there
    """Pixels of a figure as it looks now."""
    import numpy as np

    own = figure.canvas
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)  # becomes the figure's canvas
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba())
    figure.set_canvas(own)
    taken.bytes += pixels.nbytes
    return pixels


def ready(taken: Taken, until: float) -> bool:
    """Wait for the copies on the GPU by asking now and then; a GPU that hangs must not hang this thread."""
    deadline = min(time.monotonic() + READY_SECONDS, until)
    while not all(event.query() for event in taken.events):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def settled(value: Any) -> Any:  # noqa: ANN401 - whatever is logged
    """The same on the host, single elements as numbers."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, dict):
        return {key: settled(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(settled(part) for part in value)
    if _is_tensor(value) and value.device.type != "cpu":
        value = _to_host(value)
        return value.item() if value.numel() == 1 else value
    return value


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _to_host(value: Any) -> Any:  # noqa: ANN401 - a tensor
    if not value.is_cuda:
        return value.cpu()
    import torch

    stream = torch.cuda.Stream(value.device)  # type: ignore[no-untyped-call]  # not in the way of the training's own
    with torch.cuda.stream(stream):
        return value.cpu()


def written(value: Any, folder: str, stem: str) -> str:  # noqa: ANN401 - whatever is logged
    """A line of JSON; what does not fit into a line becomes a file of the folder, what fits nowhere is named by its type."""
    files: list[str] = []

    def rest(part: Any) -> Any:  # noqa: ANN401 - what JSON does not know
        if isinstance(part, (set, frozenset)):
            return list(part)
        if _is_tensor(part):
            part = part.float().numpy() if str(part.dtype) == "torch.bfloat16" else part.numpy()
        if hasattr(part, "__array_interface__") and hasattr(part, "tolist"):
            if part.size <= IN_LINE:
                return part.tolist()
            return _filed(part, folder, f"{stem}-{len(files)}", files)
        if os.path.isfile(str(getattr(part, "_path", ""))) or type(part).__module__.startswith("PIL."):
            return _filed(part, folder, f"{stem}-{len(files)}", files)
        return {"not_kept": f"{type(part).__module__}.{type(part).__qualname__}"}

    try:
        return json.dumps(value, default=rest)
    except (TypeError, ValueError, RecursionError) as error:  # keys that are no text, circles
        return json.dumps({"not_kept": f"{type(error).__name__}: {error}"[:200]})


def _filed(part: Any, folder: str, stem: str, files: list[str]) -> dict[str, str]:  # noqa: ANN401 - an array or a picture
    files.append(stem)
    media = os.path.join(folder, "media")
    try:
        os.makedirs(media, exist_ok=True)
        own = str(getattr(part, "_path", ""))
        if os.path.isfile(own):
            name = stem + os.path.splitext(own)[1]
            shutil.copyfile(own, os.path.join(media, name))
        elif hasattr(part, "__array_interface__") and hasattr(part, "tolist"):
            import numpy as np

            name = stem + ".npy"
            np.save(os.path.join(media, name), part, allow_pickle=False)
        else:
            name = stem + ".png"
            part.save(os.path.join(media, name))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return {"not_kept": f"{type(part).__qualname__}: {error}"[:200]}
    return {"file": f"media/{name}"}
