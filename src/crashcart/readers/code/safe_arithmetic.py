"""Operations whose value or gradient is not finite at the edge of what they are defined for, written so that it is.

    x.square().sum(-1).sqrt()      the gradient of a root is infinite at 0          (x.square().sum(-1) + 1e-12).sqrt()
    p * p.log()                    0 * -inf is NaN                                  p * p.clamp_min(1e-12).log()
    x / x.std(0)                   a column that stands still: 0 / 0                x / (x.std(0) + 1e-8)
    total / mask.sum()             nothing is left of the mask: 0 / 0               total / mask.sum().clamp_min(1)
    torch.acos(c.clamp(-1, 1))     its gradient is infinite at 1                    torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6))
    x.masked_fill(m, -inf)         a row that is masked whole: softmax gives NaN    x.masked_fill(m, torch.finfo(x.dtype).min)

An argument with something added to it, clamped from below, or made of what is never 0 (``exp``, ``softplus``) is safe; so is what takes
no gradient, where gradients matter. torch itself sets that of a norm or a deviation of 0 to 0.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from crashcart.model import Edit, Span
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import FUNCTIONS, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.readers.code.source import Function, Source

__all__ = ["Operation", "leading_to_the_loss", "safer", "unsafe_masks", "unsafe_operations"]

_LOGS = frozenset({"log", "log2", "log10"})
_ROOTS = frozenset({"sqrt", "rsqrt"})
_AT_ONE = frozenset({"acos", "asin", "arccos", "arcsin", "atanh", "arctanh"})
_SPREADS = frozenset({"std", "norm", "ptp"})
_REDUCED = frozenset({"sum", "mean", "std", "var", "norm", "amax", "max", "prod", "ptp", "count_nonzero"})
_SQUARES = frozenset({"square", "pow", "var", "dot", "inner"})
_NEVER_ZERO = frozenset({
    "exp", "softplus", "cosh", "logsumexp", "ones", "ones_like", "full", "tensor", "float", "as_tensor", "cumprod", "linspace", "logspace",
    "arange", "nan_to_num", "where", "numel", "size", "len", "count_params", "log1p",
})  # fmt: skip
_BOUNDED = frozenset({"clamp", "clip", "clamp_min", "clamp_", "clamp_min_", "maximum", "max", "add", "add_"})
_PASSING = frozenset({"mean", "sum", "view", "reshape", "squeeze", "unsqueeze", "sqrt", "to", "float"})  # > 0 of what is > 0
_MASKS = ("mask", "valid", "keep", "present", "observed")
_EPSILONS = ("eps", "tiny", "delta", "jitter")
_OF_NUMBERS = ("math.", "cmath.", "scipy.")
_NO_TENSORS = frozenset({"math", "logging", "logger", "log", "self", "cmath"})
_DEEPEST = 4
_LOW, _HIGH = "-1 + 1e-6", "1 - 1e-6"
_WITHOUT = frozenset({"no_grad", "inference_mode"})
_NO_TRAINING = Pattern(r"(?i)^(?:__init__|__getitem__|__len__|reset_parameters|init_\w*|_init_\w*|collate\w*|configure_\w*|main|evaluate|validate|validation_\w*|test_\w*|predict\w*|sample|generate|plot\w*|read\w*|load\w*|save\w*|on_\w*|metrics?\w*|accuracy\w*)$")  # fmt: skip
_TRAINING = Pattern(r"(?i)loss|forward|training_step|distance|entropy|objective|criterion|penalty|likelihood|divergence")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Operation(NamedTuple):
    """An operation and the argument that must not be 0, or 1; of two the one with the smaller ``weight`` is likelier."""

    name: str
    node: ast.expr
    argument: ast.expr
    weight: int


def unsafe_operations(source: Source, function: Function) -> Iterator[Operation]:
    """The operations of a function that nothing keeps from where they are not finite."""
    known = _assigned(function)
    for node in ast.walk(function):
        if isinstance(node, ast.expr) and source.around(node, *FUNCTIONS) is function and not _is_without(source, node):
            found = _of_call(source, node) if isinstance(node, ast.Call) else _of_binary(node)
            if found is not None and not _is_safe(found.argument, known, at_one=found.name in _AT_ONE):
                yield found


def unsafe_masks(source: Source, function: Function) -> Iterator[Operation]:
    """Places where what is masked becomes minus infinity, in code that takes a softmax."""
    for node in ast.walk(function) if "softmax" in source.text else ():
        is_masked = isinstance(node, ast.Call) and _last_name(node) in {"masked_fill", "masked_fill_"} and len(node.args) > 1
        if is_masked and isinstance(node, ast.Call) and _is_minus_infinity(node.args[1]):
            yield Operation("masked_fill", node, node.args[1], 0)


def leading_to_the_loss(sources: Iterable[Source]) -> set[int]:
    """The identities of the functions with which a loss is made: what a loop with a backward pass calls, layers, and what they call."""
    functions: dict[str, list[tuple[Source, Function]]] = {}
    waiting: list[tuple[Source, ast.AST]] = []
    for source in sources:
        for function in source.functions:
            functions.setdefault(function.name, []).append((source, function))
            if _TRAINING.search(function.name):
                waiting.append((source, function))
        passes = (call for call in source.nodes(ast.Call) if _last_name(call) == "backward")
        waiting += [(source, source.around(call, *_LOOPS, *FUNCTIONS) or source.tree) for call in passes]
    reached: set[int] = set()
    while waiting:
        source, node = waiting.pop()
        if isinstance(node, FUNCTIONS):
            if id(node) in reached or _NO_TRAINING.search(node.name):
                continue
            if any(_last_name(decorator) in _WITHOUT for decorator in node.decorator_list):
                continue
            reached.add(id(node))
        calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
        waiting += [each for call in calls for each in functions.get(_last_name(call), ())]
    return reached


def safer(source: Source, operation: Operation) -> list[Edit]:
    """The operation as it is finite everywhere."""
    name, node, argument = operation.name, operation.node, operation.argument
    text = source.written(argument)
    if name in _AT_ONE:
        bounds = _bounds(argument)
        if len(bounds) == 2:  # noqa: PLR2004 - from below and from above
            return [replaced(source, bound, limit) for bound, limit in zip(bounds, (_LOW, _HIGH), strict=True)]
        return [replaced(source, argument, f"{_callable(argument, text)}.clamp({_LOW}, {_HIGH})")]
    if name == "masked_fill" and isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        known = isinstance(owner, (ast.Name, ast.Attribute)) and source.names.get("torch") == "torch"
        return [replaced(source, argument, f"torch.finfo({source.written(owner)}.dtype).min" if known and owner is not None else "-1e4")]  # fmt: skip
    if name == "division" and _is_count(argument):
        return [replaced(source, argument, f"{text}.clamp_min(1)")]
    if name in _LOGS and isinstance(node, ast.Call) and source.called(node.func).startswith("numpy."):
        return [replaced(source, argument, f"{source.written(node.func).rpartition('.')[0]}.maximum({text}, 1e-12)")]
    if name in _LOGS:
        return [replaced(source, argument, f"{_callable(argument, text)}.clamp_min(1e-12)")]
    more = f" + {'1e-8' if name == 'division' and _last_name(argument) in _SPREADS else '1e-12'}"
    span = source.span(argument)
    is_summand = isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp))
    opening = "" if is_summand else "("
    closing = "" if is_summand else ")"
    if not _is_in_parentheses(source, span):
        opening, more = f"({opening}", f"{more})"
    start = Span(span.file, span.start, span.start, span.line)
    end = Span(span.file, span.end, span.end, argument.end_lineno or span.line)
    return [*([Edit(start, opening)] if opening else []), Edit(end, f"{closing}{more}")]


def _of_call(source: Source, node: ast.Call) -> Operation | None:
    name, called = _last_name(node), source.called(node.func)
    if name not in (_ROOTS | _LOGS | _AT_ONE) or called.startswith(_OF_NUMBERS) or not isinstance(node.func, ast.Attribute):
        return None
    if called.partition(".")[0] in {"torch", "numpy"}:
        argument = node.args[0] if len(node.args) == 1 else None
    else:
        is_tensor = not (isinstance(node.func.value, ast.Name) and node.func.value.id in _NO_TENSORS)
        argument = node.func.value if is_tensor and not node.args and not node.keywords else None
    if argument is None:
        return None
    return Operation(name, node, argument, 0 if name in _AT_ONE or (name in _ROOTS and _is_sum_of_squares(argument)) else 1)


def _of_binary(node: ast.expr) -> Operation | None:
    if not isinstance(node, ast.BinOp):
        return None
    power = node.right.value if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) else None
    if isinstance(power, float) and 0 < power < 1 and _is_reduced(node.left):
        return Operation("power", node, node.left, 0)
    if isinstance(node.op, ast.Div) and _is_reduced(node.right):
        return Operation("division", node, node.right, 0 if _last_name(node.right) in _SPREADS or _is_count(node.right) else 1)  # fmt: skip
    return None


def _last_name(node: ast.expr) -> str:
    """The name of what is called, of whatever it is an attribute."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_reduced(node: ast.expr) -> bool:
    """Whether an expression is a sum, a norm or a count, which is 0 where nothing is in it."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCED


def _is_without(source: Source, node: ast.expr) -> bool:
    """Whether a block takes no gradients."""
    blocks = (above for above in source.parents(node) if isinstance(above, ast.With))
    return any(_last_name(item.context_expr) in _WITHOUT for block in blocks for item in block.items)


def _assigned(function: Function) -> dict[str, ast.expr]:
    """What a name of a function was given last, as it is written."""
    return {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_safe(node: ast.expr, known: dict[str, ast.expr], *, at_one: bool = False, depth: int = 0) -> bool:
    """Whether an argument is kept from 0; or from 1, where the operation is not finite there."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        value = known.get(node.id)
        if value is None or depth >= _DEEPEST or any(isinstance(part, ast.Name) and part.id == node.id for part in ast.walk(value)):  # fmt: skip
            return False
        return _is_safe(value, known, at_one=at_one, depth=depth + 1)
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return _is_safe(node.value, known, at_one=at_one, depth=depth)
    if at_one:
        return _last_name(node) in _BOUNDED and not _bounds(node)
    if isinstance(node, ast.BinOp):
        sides = [_is_safe(side, known, depth=depth) for side in (node.left, node.right)]
        if isinstance(node.op, ast.Add):
            return any(sides) or _is_offset(node.left) or _is_offset(node.right)
        return sides[0] and (isinstance(node.op, ast.Div) or (isinstance(node.op, ast.Mult) and sides[1]))
    if not isinstance(node, ast.Call):
        return False
    name, is_given = _last_name(node), bool(node.args or node.keywords)
    if (
        name in _NEVER_ZERO
        or (name in _BOUNDED and is_given)
        or any(keyword.arg in {"eps", "min"} for keyword in node.keywords)
    ):
        return True
    return isinstance(node.func, ast.Attribute) and name in _PASSING and _is_safe(node.func.value, known, depth=depth)


def _is_offset(node: ast.expr) -> bool:
    """Whether what is added is called like a small number."""
    return any(word in name_of(node).lower() for word in _EPSILONS)


def _bounds(node: ast.expr) -> list[ast.expr]:
    """The bounds of a clamp that lets -1 and 1 through."""
    bounds = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    is_clamp = isinstance(node, ast.Call) and _last_name(node) in {"clamp", "clip", "clamp_"}
    return (
        bounds[-2:] if is_clamp and [ast.unparse(bound).removesuffix(".0") for bound in bounds[-2:]] == ["-1", "1"] else []
    )


def _is_sum_of_squares(node: ast.expr) -> bool:
    """Whether a root is taken of squares, as a distance or a deviation is, or of any sum."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _SQUARES:
            return True
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
            return True
        if (
            isinstance(part, ast.BinOp)
            and isinstance(part.op, ast.Mult)
            and ast.unparse(part.left) == ast.unparse(part.right)
        ):
            return True
    return False


def _is_count(node: ast.expr) -> bool:
    """``mask.sum()``: how many are left, of something that is called a mask."""
    if not isinstance(node, ast.Call) or _last_name(node) != "sum" or not isinstance(node.func, ast.Attribute):
        return False
    name = ast.unparse(node.func.value).rpartition(".")[2].lower()
    return any(word in name for word in _MASKS)


def _is_minus_infinity(node: ast.expr) -> bool:
    text = ast.unparse(node).replace(" ", "")
    return text in {"float('-inf')", "-float('inf')"} or (text.startswith("-") and text.endswith("inf"))


def _callable(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"


def _is_in_parentheses(source: Source, span: Span) -> bool:
    """Whether it is the only argument of a call, where nothing has to be put around a sum."""
    before, after = source.text[: span.start].rstrip()[-1:], source.text[span.end :].lstrip()[:1]
    return before == "(" and after in {")", ","}
