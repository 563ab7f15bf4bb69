"""An embedding with fewer rows than the indices that came, which the recording has with their bounds.

    nn.Embedding(12, 8)              indices from 2 to 12: 13 rows
    nn.Embedding(len(kinds), 8)      indices from 1 to len(kinds): one row more
    LlamaConfig(vocab_size=tokenizer.vocab_size)        len(tokenizer) counts the added tokens too

transformers keeps the two apart: ``vocab_size`` is the size of the model's own vocabulary, ``len`` of all.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.causes.data.label_range import rows_and_indices
from crashcart.deaths import first
from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import keyword, name_of
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.value_origins import trail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_SIZES = frozenset({"vocab_size", "num_embeddings", "n_vocab", "n_tokens", "num_tokens", "vocabulary_size"})
_SAID = ("index out of range in self", "indexSelectSmallIndex", "srcIndex < srcSelectDimSize")
_CAUSES = ("data/label-range", "code/shape-or-dtype", "code/bug")


def look(scene: Scene) -> Iterator[Fact]:
    """Where a tokenizer of transformers gives the size; else the layer that was called, where its rows are one number too few."""
    if any(words in raised.words for raised in scene.raises for words in _SAID):
        offered = [*_tokens(scene)]
        yield from offered or _rows(scene)


def _rows(scene: Scene) -> Iterator[Fact]:
    leader, trail = first(scene.case), trail_of(scene)
    known = rows_and_indices(leader.raised) if leader is not None and leader.raised is not None else None
    if known is None or trail is None or not isinstance(trail.expression, ast.Call):
        return
    layer, (rows, lowest, highest) = name_of(trail.expression.func), known
    for origin in trail.origins:
        call = getattr(origin.statement, "value", None)
        size = (
            keyword(call, "num_embeddings", 0)
            if isinstance(call, ast.Call) and name_of(call.func).endswith("Embedding")
            else None
        )
        if size is None or lowest < 0 or origin.name != layer:
            continue
        source, more = origin.source, highest + 1 - rows
        if isinstance(size, ast.Constant) and size.value == rows:
            text = str(highest + 1)
        elif not isinstance(size, ast.Constant) and more == 1:
            text = f"{source.written(size)} + 1"
        else:
            return
        why = f"the indices go from {lowest} to {highest}, and {rows} rows are numbered from 0 to {rows - 1}. If they begin at 1, subtracting 1 where they are read is as good"
        title = f"Give the embedding a row for index {highest}"
        yield from remedy(
            _CAUSES, title, "changes-training", why, [replaced(source, size, text)], source.evidence(origin.statement)
        )
        return


def _tokens(scene: Scene) -> Iterator[Fact]:
    """Where a model gets the size of its vocabulary from a tokenizer of transformers."""
    if not any(
        name.split(".")[0] in {"transformers", "tokenizers"} for source in scene.sources for name in source.names.values()
    ):
        return
    uses = [
        (source, argument.value)
        for source in scene.sources
        for call in source.nodes(ast.Call)
        for argument in call.keywords
        if argument.arg in _SIZES
        and isinstance(argument.value, ast.Attribute)
        and argument.value.attr == "vocab_size"
        and "token" in ast.unparse(argument.value.value).lower()
    ]
    edits = [replaced(source, node, f"len({source.written(node.value)})") for source, node in uses]
    for source, node in uses[:1]:
        why = "`vocab_size` does not include the tokens added to the tokenizer; each of them needs a row"
        title = "Add a row to the embedding for each added token"
        yield from remedy(_CAUSES, title, "changes-training", why, edits, source.evidence(node))
