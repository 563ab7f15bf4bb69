"""How a program prepares samples, as far as it bears on what their files hold: resizing, cleaning of NaN, folders as classes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

RESIZES = re.compile(
    r"(?:^|[._])(?:resize\w*|randomresizedcrop|centercrop|randomcrop|crop\w*|interpolate|pad|pad_sequence|thumbnail|create_transform|"
    r"letterbox|grid_sample|adaptive_avg_pool2d|imresize|autoimageprocessor|from_pretrained)$",
    re.IGNORECASE,
)
CLEANS = {"nan_to_num", "nan_to_num_", "isnan", "isfinite", "nanmean", "nanstd", "dropna", "fillna", "isinf"}
FOLDERS = ("ImageFolder", "DatasetFolder")
FETCHES = re.compile(
    r"(?:snapshot_download|hf_hub_download|load_dataset|urlretrieve|download\w*|wget|gdown\.\w+|urlopen|savez?|savez_compressed|create_dataset|to_parquet)$"
)


def look(program: Program) -> Iterator[Fact]:
    """``code.resized``, ``code.cleans_nan``, ``code.folder_classes``, ``code.fetch``: each at its first place."""
    told: set[str] = set()
    for source in program.sources:
        for call in source.nodes(ast.Call):
            name = source.called(call.func)
            last = name.rpartition(".")[2]
            for fact, fits in (
                ("code.resized", bool(RESIZES.search(name))),
                ("code.cleans_nan", last in CLEANS),
                ("code.folder_classes", last in FOLDERS),
                ("code.fetch", bool(FETCHES.search(name))),
            ):
                if fits and fact not in told:
                    told.add(fact)
                    yield source.fact(fact, name, call)
