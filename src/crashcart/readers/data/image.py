"""Images: size and mode from the header, and the whole picture decoded, since a cut one shows nowhere else."""

from __future__ import annotations

from typing import Any

__all__ = ["look"]

_PIXELS = 60_000_000


def look(path: str) -> dict[str, Any]:
    """Height, width and channels."""
    from PIL import Image

    with Image.open(path) as image:
        width, height = image.size
        if width * height > _PIXELS:
            return {"not_looked": f"{width} x {height} pixels are too many for a look"}
        image.load()
        channels = len(image.getbands())
        shape = [height, width, channels]
        return {"tables": {"": {"shape": shape, "dtype": "uint8", "bytes": height * width * channels}}, "mode": image.mode}
