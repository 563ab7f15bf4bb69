"""Operations whose value or gradient is not finite at the edge of what they are defined for, written so that it is.

    x.square().sum(-1).sqrt()      the gradient of a root is infinite at 0          (x.square().sum(-1) + 1e-12).sqrt()
    p * p.log()                    0 * -inf is NaN                                  p * p.clamp_min(1e-12).log()
    x / x.std(0)                   a column that stands still: 0 / 0                x / (x.std(0) + 1e-8)
    total / mask.sum()             nothing is left of the mask: 0 / 0               total / mask.sum().clamp_min(1)
    x.masked_fill(m, -inf)         a row that is masked whole: softmax gives NaN    x.masked_fill(m, torch.finfo(x.dtype).min)

Where the code has seen to it already, by a bound or something added, there is nothing to do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit
    from crashcart.readers.code.source import Source

__all__ = ["safer", "unsafe_masks", "unsafe_operations"]

_LOGS = frozenset({"log", "log2", "log10"})
_BOUNDED = frozenset({
    "clamp", "clamp_min", "clip", "maximum", "softplus", "exp", "relu", "max", "clamp_", "clamp_min_", "nan_to_num", "cosh", "where",
    "count_params", "numel", "size", "len", "log1p",
})  # fmt: skip
_SPREADS = frozenset({"std", "norm", "ptp"})
_TENSORS = frozenset({"torch", "numpy"})


def unsafe_operations(source: Source, within: ast.AST) -> Iterator[ast.Call | ast.BinOp]:
    """The roots, logarithms and divisions by a spread or by what is left of a mask in a piece of code that nothing bounds."""
    for node in ast.walk(within):
        is_division = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if (isinstance(node, ast.Call) and _operand(source, node) is not None) or (
            is_division and isinstance(node, ast.BinOp) and (_is_spread(node.right) or _is_count(node.right))
        ):
            yield node


def unsafe_masks(source: Source, within: ast.AST) -> Iterator[ast.Call]:
    """Places where what is masked becomes minus infinity, in code that takes a softmax."""
    for node in ast.walk(within) if "softmax" in source.text else ():
        is_masked = isinstance(node, ast.Call) and _name(node) in {"masked_fill", "masked_fill_"} and len(node.args) > 1
        if is_masked and isinstance(node, ast.Call) and _is_minus_infinity(node.args[1]):
            yield node


def safer(source: Source, node: ast.Call | ast.BinOp) -> list[Edit]:
    """The operation as it is finite everywhere."""
    if isinstance(node, ast.BinOp) and _is_count(node.right):
        return [replaced(source, node.right, f"{source.written(node.right)}.clamp_min(1)")]
    if isinstance(node, ast.Call) and _name(node).startswith("masked_fill"):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        known = isinstance(owner, (ast.Name, ast.Attribute)) and source.names.get("torch") == "torch"
        least = f"torch.finfo({source.written(owner)}.dtype).min" if known and owner is not None else "-1e4"
        return [replaced(source, node.args[1], least)]
    if isinstance(node, ast.BinOp):
        return [replaced(source, node.right, f"({_summand(node.right, source.written(node.right))} + 1e-8)")]
    operand = _operand(source, node)
    if operand is None:
        return []
    text, name = source.written(operand), _name(node)
    if name == "sqrt":
        as_method = isinstance(node.func, ast.Attribute) and node.func.value is operand
        more = f"{_summand(operand, text)} + 1e-12"
        return [replaced(source, operand, f"({more})" if as_method else more)]
    if isinstance(node.func, ast.Attribute) and node.func.value is operand:
        return [replaced(source, operand, f"{_callable(operand, text)}.clamp_min(1e-12)")]
    bound = f"{_callable(operand, text)}.clamp_min(1e-12)"
    if source.called(node.func).startswith("numpy."):
        bound = f"{source.written(node.func).rpartition('.')[0]}.maximum({text}, 1e-12)"
    return [replaced(source, operand, bound)]


def _summand(operand: ast.expr, text: str) -> str:
    """An expression to which something is added: not to the last of its branches alone."""
    return (
        text
        if isinstance(operand, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp, ast.Constant))
        else f"({text})"
    )


def _callable(operand: ast.expr, text: str) -> str:
    return text if isinstance(operand, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _operand(source: Source, node: ast.Call) -> ast.expr | None:
    """What a root or logarithm is taken of, where it may be 0."""
    name = _name(node)
    if name not in {"sqrt", *_LOGS} or not isinstance(node.func, ast.Attribute):
        return None
    if source.called(node.func).partition(".")[0] in _TENSORS:
        operand = node.args[0] if len(node.args) == 1 else None
    elif isinstance(node.func.value, ast.Name) and node.func.value.id in {
        "math",
        "logging",
        "logger",
        "log",
        "self",
        "cmath",
    }:
        return None
    else:
        operand = node.func.value if not node.args and not node.keywords else None
    if operand is None or not _may_be_zero(operand, root=name == "sqrt"):
        return None
    return operand


def _may_be_zero(node: ast.expr, *, root: bool) -> bool:
    """Whether nothing in an expression keeps it away from 0: no bound, nothing added."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, (ast.Attribute, ast.Name)):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else part.func.id
            if name in _BOUNDED:
                return False
        elif (
            isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add) and (_is_small(part.left) or _is_small(part.right))
        ) or (isinstance(part, ast.Constant) and isinstance(part.value, (int, float)) and node is part):
            return False
    return not root or _is_sum_of_squares(node)


def _is_small(node: ast.expr) -> bool:
    """``1e-8``, ``eps``, ``self.eps``, ``1``."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and node.value > 0
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return any(word in name.lower() for word in ("eps", "tiny", "delta", "jitter"))


def _is_sum_of_squares(node: ast.expr) -> bool:
    """Whether a root is taken of squares, as a distance or a deviation is."""
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in {"square", "pow", "var", "dot", "inner"}
        ):
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


def _is_spread(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SPREADS
        and not node.func.attr.startswith("_")
    )


def _is_count(node: ast.expr) -> bool:
    """``mask.sum()``: how many are left, of something that is called a mask."""
    if not isinstance(node, ast.Call) or _name(node) != "sum" or not isinstance(node.func, ast.Attribute):
        return False
    name = ast.unparse(node.func.value).rpartition(".")[2].lower()
    return any(word in name for word in ("mask", "valid", "keep", "present", "observed"))


def _is_minus_infinity(node: ast.expr) -> bool:
    return ast.unparse(node).replace(" ", "") in {
        "float('-inf')",
        "-float('inf')",
        "-torch.inf",
        "-math.inf",
        "-np.inf",
        "-numpy.inf",
        "-inf",
    }
