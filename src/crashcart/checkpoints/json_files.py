"""JSON files beside the weights: a save that was cut off leaves half of one, and resuming then dies on it.

An index of shards is one of them:

    {"metadata": {...}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", ...}}
"""

from __future__ import annotations

import codecs
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import DamageError, Look, Problem, in_words
from crashcart.checkpoints.spans import opened
from crashcart.documents import DocumentError, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INDEX_SUFFIX: Final = ".index.json"


def look_at_json(path: Path) -> Look:
    """Check that a JSON file can be read, and keep its numbers or its index of shards."""
    try:
        with opened(path) as span:
            text = span.at(0, span.size)
        content = load_json(text.removeprefix(codecs.BOM_UTF8))
    except OSError as error:
        return Look("json", (Problem("unknown", f"could not be read: {error.strerror or error}"),))
    except DamageError as damage:
        return Look("json", notes=(damage.problem.says,))
    except DocumentError as refused:
        return Look("json", notes=(f"it {refused}, so it was not read",))
    except ValueError:
        size = in_words(len(text))
        says = f"not readable as JSON ({size} on disk)" if text else "the file is empty (0 bytes)"
        return Look("json", (Problem("broken", says),))
    if path.name.endswith(INDEX_SUFFIX):
        return _look_at_index(content)
    pairs = content.items() if isinstance(content, dict) else ()
    numbers = {key: value for key, value in pairs if type(value) is int}
    return Look("json", numbers=MappingProxyType(numbers))


def _look_at_index(content: object) -> Look:
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        return Look("json", (Problem("broken", "has no weight_map, so the shards are not known"),))
    return Look("json", shards=MappingProxyType(_by_shard(weight_map)))


def _by_shard(weight_map: Mapping[str, str]) -> dict[str, frozenset[str]]:
    shards: dict[str, set[str]] = {}
    for tensor, shard in weight_map.items():
        shards.setdefault(shard, set()).add(tensor)
    return {shard: frozenset(tensors) for shard, tensors in shards.items()}
