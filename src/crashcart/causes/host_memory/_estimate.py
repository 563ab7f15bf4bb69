"""How large a checkpoint may become, estimated before there is one: from the sizes of a transformer, or from its name.

Twelve times layers times width squared, and the vocabulary: what attention and a feed-forward part of the usual shape hold.
Nothing is sure about it, so that it is told as an estimate and never more than that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.causes._joined import setting
from crashcart.numbers import to_float
from crashcart.record import record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Evidence, Fact

__all__ = ["Estimate", "by_name", "by_sizes", "each"]

# Of a weight, and of Adam's two moments beside it, in 16 bits each: as few as a checkpoint can do with.
WEIGHT, WITH_ADAM = 2, 6
WIDTHS = ("hidden_size", "n_embd", "d_model", "embed_dim", "hidden_dim", "model_dim")
DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth")
VOCABULARIES = ("vocab_size", "padded_vocab_size", "n_vocab")
MODELS = ("model_name_or_path", "pretrained_model_name_or_path", "model_name", "base_model", "model")
IN_PART = re.compile(r"(?i)lora|peft|adapter|freeze|frozen|trainable")
BILLIONS = re.compile(r"(?i)(?<![a-z0-9.])(\d{1,3}(?:\.\d+)?)b(?![a-z0-9])")
_WIDTH, _DEPTH = range(64, 65_537), range(1, 501)


@record(frozen=True)
class Estimate:
    """Weights, and where what they were estimated from is said."""

    weights: float
    words: str
    evidence: tuple[Evidence, ...]


def by_sizes(case: Case) -> Estimate | None:
    """From width, depth and vocabulary, where the config names them; none where only a part is trained."""
    width, depth = _first(case, WIDTHS, _WIDTH), _first(case, DEPTHS, _DEPTH)
    if width is None or depth is None or _in_part(case):
        return None
    words = _first(case, VOCABULARIES, range(1, 1 << 22))
    weights = 12 * depth[0] * width[0] ** 2 + (words[0] * width[0] if words is not None else 0)
    says = f"{depth[0]} layers of width {width[0]}" + (f" and {words[0]:,} words" if words is not None else "")
    return Estimate(weights, says, (width[1], depth[1], *((words[1],) if words is not None else ())))


def each(case: Case) -> tuple[int, str]:
    """The bytes of a weight in a checkpoint, at the least, and what is in it."""
    if case.all("code.optimizer_saved"):
        return WITH_ADAM, "weights and Adam's states"
    return WEIGHT, "weights"


def by_name(case: Case) -> Estimate | None:
    """From a name like ``llama-7b``."""
    for one in MODELS:
        fact = setting(case, one)
        found = BILLIONS.search(str(fact.value)) if fact is not None and isinstance(fact.value, str) else None
        if fact is not None and found is not None and not _in_part(case):
            return Estimate(to_float(found[1], 0.0) * 1e9, f"a model called {fact.value}", (fact.evidence,))
    return None


def _first(case: Case, names: tuple[str, ...], allowed: range) -> tuple[int, Evidence] | None:
    for name in names:
        fact = setting(case, name)
        if fact is not None and type(fact.value) is int and fact.value in allowed:
            return fact.value, fact.evidence
    return None


def _in_part(case: Case) -> bool:
    """Whether a setting speaks of training a part of the weights only."""
    return any(IN_PART.search(fact.spelling or "") and fact.value not in {None, False, ""} for fact in _plain(case))


def _plain(case: Case) -> list[Fact]:
    return [fact for fact in case.facts.values() if isinstance(fact.value, (str, int, float, bool, type(None)))]
