"""Operations of a training's code whose gradient is infinite, or no number, at a value that their argument can have.

    distance = (a - b).square().sum(-1).sqrt()       0 where both are equal: 1 / (2 * sqrt(0)), times 0
    entropy = -(p * p.log()).sum(-1)                 0 * log(0)
    score = hits / mask.sum()                        0 / 0
    angle = torch.acos(cosine)                       infinite at 1

Asked only of a run whose weights stopped being numbers in one step, with a loss and inputs that were as usual: there such an operation
is the likely reason, and the loss itself may stay finite. An argument with something added to it, clamped from below, or made of what is
never 0 (``exp``, ``softplus``) is safe; so is what takes no gradient. torch itself sets that of a norm or a deviation of 0 to 0.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.pattern import Pattern
from crashcart.readers.code.source import FUNCTIONS, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Function, Source

__all__ = ["INFINITE_GRADIENT", "infinite_gradients"]

INFINITE_GRADIENT = "code.infinite_gradient"
_MOST, _DEEPEST = 3, 4
_AT_ZERO = frozenset({"sqrt", "rsqrt", "log", "log2", "log10"})
_AT_ONE = frozenset({"acos", "asin", "arccos", "arcsin", "acosh", "atanh", "arctanh"})
_REDUCED = frozenset({"sum", "mean", "norm", "std", "var", "amax", "max", "prod", "count_nonzero"})
_NEVER_ZERO = frozenset({"exp", "softplus", "cosh", "logsumexp", "ones", "ones_like", "full", "tensor", "float", "as_tensor", "cumprod", "linspace", "logspace", "arange"})  # fmt: skip
_BOUNDED = frozenset({"clamp", "clip", "clamp_min", "clamp_", "maximum", "max", "clamp_max"})
_EPSILON, _INSIDE = "1e-12", ".clamp(-1 + 1e-6, 1 - 1e-6)"
_NO_TRAINING = Pattern(r"(?i)^(?:__init__|__getitem__|__len__|reset_parameters|init_\w*|_init_\w*|collate\w*|configure_\w*|main|evaluate|validate|validation_\w*|test_\w*|predict\w*|sample|generate|plot\w*|read\w*|load\w*|save\w*|on_\w*|metrics?\w*|accuracy\w*)$")  # fmt: skip
_TRAINING = Pattern(r"(?i)loss|forward|training_step|distance|entropy|objective|criterion|penalty|likelihood|divergence")
_WITHOUT = frozenset({"no_grad", "inference_mode"})


def infinite_gradients(sources: Iterable[Source]) -> list[Fact]:
    """The likely operations, those of losses and models first; each with its kind and the edit that makes it safe."""
    found: list[tuple[int, Fact]] = []
    for source in sources:
        if "torch" not in source.text:
            continue
        functions: list[Function] = [*source.nodes(ast.FunctionDef), *source.nodes(ast.AsyncFunctionDef)]
        found += [ranked for function in functions for ranked in _in_function(source, function)]
    found.sort(key=_rank)
    lines = {fact.evidence.where: fact for _, fact in reversed(found)}  # the likeliest of each line
    return [fact for _, fact in found if lines[fact.evidence.where] is fact][:_MOST]


def _rank(found: tuple[int, Fact]) -> int:
    return found[0]


def _in_function(source: Source, function: Function) -> Iterator[tuple[int, Fact]]:
    if _NO_TRAINING.search(function.name) or any(_last_name(one) in _WITHOUT for one in function.decorator_list):
        return
    known = _assigned(function)
    near = 0 if _TRAINING.search(function.name) or _is_layer(source, function) else 1
    for node in ast.walk(function):
        if not isinstance(node, ast.expr) or source.around(node, *FUNCTIONS) is not function or _is_without(source, node):
            continue
        for weight, operation, argument in _operation(source, node):
            if argument is not None and not _is_safe(argument, known):
                value = {"operation": operation, "edits": _edits(source, operation, argument)}
                yield 2 * near + weight, source.fact(INFINITE_GRADIENT, value, node)


def _is_layer(source: Source, function: Function) -> bool:
    owner = source.around(function, ast.ClassDef)
    return owner is not None and any(
        isinstance(one, FUNCTIONS) and one.name in {"forward", "training_step"} for one in owner.body
    )


def _is_without(source: Source, node: ast.expr) -> bool:
    """Whether a block takes no gradients."""
    blocks = (above for above in source.parents(node) if isinstance(above, ast.With))
    return any(_last_name(item.context_expr) in _WITHOUT for block in blocks for item in block.items)


def _operation(source: Source, node: ast.expr) -> Iterator[tuple[int, str, ast.expr | None]]:
    """How likely it is, what it is called, and the argument that must not be 0, or 1."""
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        if name not in _AT_ZERO and name not in _AT_ONE:
            return
        called = source.called(node.func)
        if called == f"torch.{name}" and node.args:
            argument: ast.expr | None = node.args[0]
        elif (
            isinstance(node.func, ast.Attribute)
            and not (node.args or node.keywords)
            and not called.startswith(("math.", "numpy.", "torch.", "cmath.", "scipy."))
        ):
            argument = node.func.value
        else:
            return
        yield (1 if name in {"log", "log2", "log10"} else 0), name, argument
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = node.right.value if isinstance(node.right, ast.Constant) else None
        if isinstance(power, float) and 0 < power < 1 and _is_reduced(node.left):
            yield 0, "power", node.left
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_reduced(node.right):
        yield 1, "division", node.right


def _last_name(node: ast.expr) -> str:
    """The name of what is called, of whatever it is an attribute."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_reduced(node: ast.expr) -> bool:
    """Whether an expression is a sum, a norm or a count, which is 0 where nothing is in it."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCED


def _assigned(function: Function) -> dict[str, ast.expr]:
    """What a name of a function was given last, as it is written."""
    return {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_safe(node: ast.expr, known: dict[str, ast.expr], depth: int = 0) -> bool:
    """Whether an argument is kept from 0 (and from 1, where it is clamped)."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        value = known.get(node.id)
        return value is not None and depth < _DEEPEST and not _uses(value, node.id) and _is_safe(value, known, depth + 1)
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return _is_safe(node.value, known, depth)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add):
            return any(_is_offset(side) or _is_safe(side, known, depth) for side in (node.left, node.right))
        if isinstance(node.op, (ast.Mult, ast.Div)):
            return _is_safe(node.left, known, depth) and (isinstance(node.op, ast.Div) or _is_safe(node.right, known, depth))
        return False
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        bounded = name in _BOUNDED and bool(node.args or node.keywords)
        if name in _NEVER_ZERO or bounded or any(keyword.arg in {"eps", "min"} for keyword in node.keywords):
            return not (name in {"max", "clamp_max"} and not node.args)
        if name in {"add", "add_"}:
            return True
        if isinstance(node.func, ast.Attribute) and name in {
            "mean",
            "sum",
            "view",
            "reshape",
            "squeeze",
            "unsqueeze",
            "sqrt",
            "to",
            "float",
        }:
            return _is_safe(node.func.value, known, depth)
    return False


def _is_offset(node: ast.expr) -> bool:
    """Whether what is added is a constant, or is called like one."""
    return isinstance(node, ast.Constant) or "eps" in name_of(node).lower() or "tiny" in name_of(node).lower()


def _uses(node: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


def _edits(source: Source, operation: str, argument: ast.expr) -> tuple[Edit, ...]:
    """Something added below a root or a logarithm, an angle kept inside; none where a reader has to choose."""
    span = source.span(argument)
    end = Span(span.file, span.end, span.end, argument.end_lineno or span.line)
    start = Span(span.file, span.start, span.start, span.line)
    if operation in _AT_ONE:
        if operation == "acosh":
            return ()
        if isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return (Edit(end, _INSIDE),)
        return (Edit(start, "("), Edit(end, f"){_INSIDE}"))
    is_summand = isinstance(argument, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp))
    if not is_summand:
        return (Edit(start, "(("), Edit(end, f") + {_EPSILON})"))
    if _is_in_parentheses(source, span):
        return (Edit(end, f" + {_EPSILON}"),)
    return (Edit(start, "("), Edit(end, f" + {_EPSILON})"))


def _is_in_parentheses(source: Source, span: Span) -> bool:
    """Whether it is the only argument of a call, where nothing has to be put around a sum."""
    before, after = source.text[: span.start].rstrip()[-1:], source.text[span.end :].lstrip()[:1]
    return before == "(" and after in {")", ","}
