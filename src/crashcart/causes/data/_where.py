"""Where an exception came from, as the causes of this family ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

LOADER = (
    r"__getitem__|__getitems__|_worker_loop|_utils/(?:fetch|worker|collate)\.py|collat|/datasets?/|dataset\w*\.py|"
    r"dataloader|data_?loader|_next_data"
)
WEIGHTS = (
    r"torch/serialization\.py|from_pretrained|load_state_dict|load_checkpoint|load_model\b|load_pretrained|"
    r"safetensors|safe_open|torch\.load|load_weights|/hub\.py"
)


def uncaught(case: Case) -> Iterator[Raised]:
    """Exceptions that the program did not get over, first one first; also stacks whose last line is missing."""
    return (raised for raised in case.log.raised if (raised.kind or raised.stack_only) and not raised.survivable)


def stack(raised: Raised, innermost: int = 80) -> str:
    """The last frames as text, files with forward slashes, to search in."""
    frames = raised.frames[-innermost:]
    return "\n".join(f"{frame.file} {frame.function} {frame.code}".replace("\\", "/") for frame in frames)
