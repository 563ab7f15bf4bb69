"""An embedding with a row for each token of the vocabulary, and none for the tokens that were added to it.

    LlamaConfig(vocab_size=tokenizer.vocab_size)        len(tokenizer) counts the added tokens too

transformers keeps the two apart: ``vocab_size`` is the size of the model's own vocabulary, ``len`` of all.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_SIZES = frozenset({"vocab_size", "num_embeddings", "n_vocab", "n_tokens", "num_tokens", "vocabulary_size"})
_SAID = ("index out of range in self", "indexSelectSmallIndex", "srcIndex < srcSelectDimSize")


def look(scene: Scene) -> Iterator[Fact]:
    """Where a model gets the size of its vocabulary from a tokenizer of transformers."""
    if not any(words in raised.words for raised in scene.raises for words in _SAID):
        return
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
        yield from remedy(
            ("data/label-range", "code/shape-or-dtype", "code/bug"),
            title,
            "changes-training",
            why,
            edits,
            source.evidence(node),
        )
