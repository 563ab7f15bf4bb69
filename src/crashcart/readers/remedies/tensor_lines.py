"""Lines that PyTorch refuses, with the change that its message asks for.

x.numpy()                       Can't call numpy() on Tensor that requires grad: x.detach().numpy()
average.add_(...)               a leaf Variable that requires grad is being used in an in-place operation: under torch.no_grad()
self.encode(x)                  mat1 and mat2 must have the same dtype, but got Double and Float: x.float()
cross_entropy(output, target)   expected scalar type Long but found Int: target.long()
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.pattern import Pattern
from crashcart.readers.code.edits import own_lines, replaced, wrapped
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Raise, Scene

_CAUSES = ("code/autograd", "code/shape-or-dtype", "code/bug", "data/label-range", "data/shape")
_WITH_GRAPH = "Can't call numpy() on Tensor that requires grad"
_ON_DEVICE = "can't convert cuda"
_NARROW = "Got unsupported ScalarType BFloat16"
_LEAF = "a leaf Variable that requires grad"
_INPLACE = "modified by an inplace operation"
_DOUBLE = Pattern(
    r"got Double and Float|double != float|scalar type Float but found Double|type \((?:torch\.)?(?:DoubleTensor|double)\) and (?:bias|weight) type"
)
_LABELS = Pattern(
    r"(?i)expected (?:scalar|target|object of scalar) type Long|\"nll_loss\w{0,60}\" not implemented for '(?:Int|Float|Double|Short|Byte|Bool)'"
)
_LOSSES = frozenset(
    {"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss", "criterion", "loss_fn", "loss_function", "lossfn"}
)


def look(scene: Scene) -> Iterator[Fact]:
    """By the words of the message, at the innermost own line."""
    for raised in scene.raises[:1]:
        spot = raised.frames[-1] if raised.frames else None
        source = scene.source(spot.file) if spot is not None else None
        statement = statement_at(source, spot.line) if source is not None and spot is not None else None
        if source is None or statement is None or hasattr(statement, "body"):
            return
        if any(words in raised.words for words in (_WITH_GRAPH, _ON_DEVICE, _NARROW)):
            more = (
                ".detach().cpu()" if _ON_DEVICE in raised.words else ".float()" if _NARROW in raised.words else ".detach()"
            )
            yield from _as_numpy(source, statement, more)
        elif _LEAF in raised.words:
            edits = (
                wrapped(source, statement, statement, ["with torch.no_grad():"], [])
                if source.names.get("torch") == "torch"
                else ()
            )
            yield from remedy(
                _CAUSES,
                "Change the weights under torch.no_grad()",
                "exact",
                "changing the weights themselves is not part of the gradient graph",
                edits,
                source.evidence(statement),
            )
        elif _INPLACE in raised.words:
            yield from _not_in_place(scene)
        elif _DOUBLE.search(raised.words):
            yield from _converted(source, statement, "float", _CAUSES)
        elif _LABELS.search(raised.words):
            yield from _labels(source, statement, raised)


def _as_numpy(source: Source, statement: ast.stmt, more: str) -> Iterator[Fact]:
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "numpy"
        and not node.args
    ]
    edits = [
        replaced(source, call.func.value, f"{source.written(call.func.value)}{more}")
        for call in calls
        if isinstance(call.func, ast.Attribute)
    ]
    yield from remedy(
        _CAUSES,
        "Convert the tensor to a dtype that numpy supports",
        "exact",
        "the values are the same",
        edits,
        source.evidence(statement),
    )


def _not_in_place(scene: Scene) -> Iterator[Fact]:
    """`inplace=True` of layers, and the one `+=` of a `forward`."""
    layers = [
        (source, keyword.value)
        for source in scene.sources
        for call in source.nodes(ast.Call)
        for keyword in call.keywords
        if keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
    ]
    added = [
        (source, node)
        for source in scene.sources
        for node in source.nodes(ast.AugAssign)
        if isinstance(node.target, ast.Name)
        and own_lines(source, node)
        and (function := source.around(node, *FUNCTIONS)) is not None
        and getattr(function, "name", "") == "forward"
    ]
    why = "the new values get their own tensor, so the old ones are still available for backward"
    if layers and not added:
        edits = [replaced(source, node, "False") for source, node in layers]
        yield from remedy(
            _CAUSES,
            "Do not overwrite a tensor that backward still needs",
            "exact",
            why,
            edits,
            layers[0][0].evidence(layers[0][1]),
        )
    elif len(added) == 1 and not layers:
        source, node = added[0]
        operator = source.text[source.span(node.target).end : source.span(node.value).start].strip().removesuffix("=")
        text = f"{source.written(node.target)} = {source.written(node.target)} {operator} ({source.written(node.value)})"
        yield from remedy(
            _CAUSES,
            "Do not overwrite a tensor that backward still needs",
            "exact",
            why,
            [replaced(source, node, text)],
            source.evidence(node),
        )


def _converted(source: Source, statement: ast.stmt, kind: str, causes: tuple[str, ...]) -> Iterator[Fact]:
    """The one name that goes into the calls of a line."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    called = {id(part) for call in calls for part in ast.walk(call.func)}
    data = [
        node
        for call in calls
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Name) and id(node) not in called
    ]
    if len({node.id for node in data}) == 1 and len({id(node) for node in data}) == 1:
        node = data[0]
        why = f"it had twice the precision of the weights; {kind}32 matches them"
        yield from remedy(
            causes,
            f"Hand {node.id} over as {kind}32",
            "changes-training",
            why,
            [replaced(source, node, f"{node.id}.{kind}()")],
            source.evidence(statement),
        )


def _labels(source: Source, statement: ast.stmt, raised: Raise) -> Iterator[Fact]:
    if "size" in raised.words:
        return
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and len(node.args) > 1
        and (source.called(node.func).rpartition(".")[2] in _LOSSES or "loss" in source.called(node.func).lower())
    ]
    if len(calls) == 1 and isinstance(calls[0].args[1], (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        target = calls[0].args[1]
        why = "this loss needs class numbers as int64; the values are the same"
        yield from remedy(
            _CAUSES,
            "Convert the class numbers to int64",
            "exact",
            why,
            [replaced(source, target, f"{source.written(target)}.long()")],
            source.evidence(statement),
        )
