"""How a program prepares samples, as far as it bears on what their files hold: resizing, cleaning of NaN, folders as classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_SMALLER = (
    "resize", "Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop", "center_crop", "resized_crop", "interpolate", "thumbnail",
    "create_transform", "letterbox", "imresize", "LongestMaxSize", "SmallestMaxSize", "grid_sample", "resize_image",
)  # fmt: skip
_METHODS = {
    "code.resized": (*_SMALLER, "crop", "pad", "pad_sequence", "AutoImageProcessor", "from_pretrained", "PadIfNeeded", "Pad"),
    "code.made_smaller": (*_SMALLER, "downsample", "pyrDown", "avg_pool2d"),
    "code.cleans_nan": ("nan_to_num", "nan_to_num_", "isnan", "isfinite", "nanmean", "nanstd", "dropna", "fillna", "isinf"),
    "code.folder_classes": ("ImageFolder", "DatasetFolder"),
    "code.fetch": (
        "snapshot_download", "hf_hub_download", "load_dataset", "urlretrieve", "download", "download_url", "download_and_extract_archive",
        "urlopen", "wget", "save", "savez", "savez_compressed", "create_dataset", "to_parquet", "makedirs",
    ),
}  # fmt: skip


def look(execution: Execution) -> Iterator[Fact]:
    """``code.resized``, ``code.made_smaller``, ``code.cleans_nan``, ``code.folder_classes``, ``code.fetch``: each at its first place."""
    for name, methods in _METHODS.items():
        for call in execution.trace.methods(*methods)[:1]:
            yield call.fact(name, call.name)
