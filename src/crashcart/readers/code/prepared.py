"""How a program prepares samples, as far as it bears on what their files hold: resizing, cleaning of NaN, folders as classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

CALLS = {
    "code.resized": (
        "resize", "Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop", "crop", "center_crop", "resized_crop", "interpolate", "pad",
        "pad_sequence", "thumbnail", "create_transform", "letterbox", "imresize", "AutoImageProcessor", "from_pretrained", "LongestMaxSize",
        "SmallestMaxSize", "PadIfNeeded", "A.Resize", "grid_sample", "Pad", "resize_image",
    ),
    "code.made_smaller": (
        "resize", "Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop", "center_crop", "resized_crop", "interpolate", "thumbnail",
        "create_transform", "letterbox", "imresize", "LongestMaxSize", "SmallestMaxSize", "A.Resize", "grid_sample", "resize_image",
        "downsample", "pyrDown", "avg_pool2d",
    ),
    "code.cleans_nan": ("nan_to_num", "nan_to_num_", "isnan", "isfinite", "nanmean", "nanstd", "dropna", "fillna", "isinf"),
    "code.folder_classes": ("ImageFolder", "DatasetFolder"),
    "code.fetch": (
        "snapshot_download", "hf_hub_download", "load_dataset", "urlretrieve", "download", "download_url", "download_and_extract_archive",
        "gdown.download", "urlopen", "wget", "save", "savez", "savez_compressed", "create_dataset", "to_parquet", "makedirs",
    ),
}  # fmt: skip


def look(program: Program) -> Iterator[Fact]:
    """``code.resized``, ``code.made_smaller``, ``code.cleans_nan``, ``code.folder_classes``, ``code.fetch``: each at its first place."""
    for name, calls in CALLS.items():
        found = ((source, call) for source in program.sources for call in source.calls(*calls))
        for source, call in found:
            yield source.fact(name, source.called(call.func), call)
            break
