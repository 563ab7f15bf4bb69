"""Images: size and mode from the header, and the whole picture decoded, since a cut one shows nowhere else."""

from __future__ import annotations

from typing import Any

__all__ = ["LIBRARY", "look"]

LIBRARY = "PIL.Image"

_LARGEST = 72 << 20
_PROGRAMS = {"EPS", "WMF"}  # which other programs draw


def look(path: str) -> dict[str, Any]:
    """Height, width and channels."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # ours is stricter, and no error
    with Image.open(path) as image:
        width, height = image.size
        channels = len(image.getbands())
        if width * height * channels > _LARGEST:
            return {"not_looked": f"{width} x {height} pixels are too many for a look"}
        if image.format in _PROGRAMS:
            return {"not_looked": f"it is {image.format}, which only another program can draw"}
        image.load()
        shape = [height, width, channels]
        return {"tables": {"": {"shape": shape, "dtype": "uint8", "bytes": height * width * channels}}, "mode": image.mode}
