"""The same cut of a batch made so that nothing is lost and nothing is empty.

Part ``i`` of ``n`` goes from ``i * len // n`` to ``(i + 1) * len // n``: all samples, sizes that differ by one at most. There
are as many parts as asked for, or one for each sample where there are fewer samples. A function that makes the parts may then make
fewer than asked for, and the loop that goes over them divides its loss by how many there are.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import alone, line_before, replaced
from crashcart.readers.code.source import FUNCTIONS, keyword, parents
from crashcart.readers.rules._statements import contains, function_of, loop_of, statement_of
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Division, Slice

__all__ = ["cut_without_loss"]


@record(frozen=True)
class Frame:
    """A function, or the statements of a file outside of all functions."""

    source: Source
    node: ast.AST


@record(frozen=True)
class Cut:
    """A quotient that cuts: ``slices`` with their two bounds and the index, or ``step`` (a size for split or range)."""

    form: str
    quotient: ast.expr
    target: str = ""
    use: ast.Subscript | None = None
    lower: ast.expr | None = None
    upper: ast.expr | None = None
    index: ast.expr | None = None
    size: str = ""  # how many samples there are, and how many parts: as this function calls them
    number: ast.expr | None = None


def cut_without_loss(execution: Execution, division: Division, slices: list[Slice]) -> tuple[Edit, ...]:
    """The edits for a quotient that cuts, as a size of its own or by slices; none where the code is shaped otherwise."""
    node = division.node
    if not isinstance(node, ast.BinOp):
        return ()
    if not slices:
        return edits(execution, Frame(division.source, function_of(node)), Cut("step", node))
    use = slices[0]
    frame = Frame(use.source, function_of(use.node))
    if contains(frame.node, node):
        return next((edits(execution, frame, cut) for cut in cuts_at(frame, use.node, node, named(node))), ())
    for call in division.calls_above():  # a function that only gives the size of a part
        if not isinstance(call.node, ast.Call) or not contains(frame.node, call.node) or call.function is None:
            continue
        names = [each.arg for each in call.function.node.args.args]
        shift = names[:1] == ["self"]
        given = {name: keyword(call.node, name, names.index(name) - shift) for name in names[shift:]}
        number = given.get(node.right.id) if isinstance(node.right, ast.Name) else None
        for cut in cuts_at(frame, use.node, call.node, named(call.node)):
            renamed = Cut(
                cut.form, call.node, cut.target, cut.use, cut.lower, cut.upper, cut.index, _renamed(node.left, given), number
            )
            return edits(execution, frame, renamed)
    return ()


def callers(execution: Execution, frame: Frame) -> list[tuple[Frame, ast.Call]]:
    """The places that call a function, each once."""
    found = {
        call.node: (Frame(call.source, function_of(call.node)), call.node)
        for call in execution.trace.calls
        if call.function is not None and call.function.node is frame.node and isinstance(call.node, ast.Call)
    }
    return list(found.values())


def _renamed(node: ast.expr, given: dict[str, ast.expr | None]) -> str:
    """An expression of a function in the words of its caller; empty where it uses more than what it is given."""
    known = {name: value for name, value in given.items() if value is not None}
    text = ast.unparse(node)
    for name, value in known.items():
        text = re.sub(rf"\b{re.escape(name)}\b", ast.unparse(value).replace("\\", "\\\\"), text)
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return text if used <= known.keys() | {"len", "next", "iter", "min", "list"} else ""


def named(node: ast.expr) -> str:
    """The variable that a quotient is put into, also through ``int()`` or ``max(1, ...)``."""
    for above in parents(node):
        if isinstance(above, ast.Assign):
            target = above.targets[0]
            return target.id if isinstance(target, ast.Name) and len(above.targets) == 1 else ""
        if not (isinstance(above, ast.Call) and isinstance(above.func, ast.Name) and above.func.id in {"int", "max"}):
            return ""
    return ""


def assigned(frame: Frame, name: str) -> list[ast.expr]:
    """What a variable is set to in a function."""
    return [
        node.value
        for node in frame.source.nodes(ast.Assign)
        if any(isinstance(target, ast.Name) and target.id == name for target in node.targets) and contains(frame.node, node)
    ]


def cuts_at(frame: Frame, use: ast.AST, quotient: ast.expr, target: str) -> Iterator[Cut]:
    """A slice whose two bounds are multiples of a quotient."""
    if isinstance(use, ast.Subscript) and isinstance(use.slice, ast.Slice):
        lower, upper = _bound(frame, use.slice.lower), _bound(frame, use.slice.upper)
        index = _index(lower, quotient, target) if lower is not None else None
        if upper is not None and index is not None and _holds(upper, quotient, target):
            yield Cut("slices", quotient, target, use, lower, upper, index)


def _bound(frame: Frame, node: ast.expr | None) -> ast.expr | None:
    """A bound of a slice, or what its variable is set to."""
    if isinstance(node, ast.Name):
        values = assigned(frame, node.id)
        return values[0] if len(values) == 1 else None
    return node


def _holds(node: ast.expr, quotient: ast.expr, target: str) -> bool:
    wanted = ast.dump(quotient)
    return any(
        (isinstance(one, (ast.BinOp, ast.Call)) and ast.dump(one) == wanted)
        or (isinstance(one, ast.Name) and one.id == target != "")
        for one in ast.walk(node)
    )


def _index(node: ast.expr, quotient: ast.expr, target: str) -> ast.expr | None:
    """The other factor of ``i * quotient``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            is_it = ast.dump(one) == ast.dump(quotient) or (isinstance(one, ast.Name) and one.id == target != "")
            if is_it:
                return other
    return None


def edits(execution: Execution, frame: Frame, cut: Cut) -> tuple[Edit, ...]:
    """The edits that cut without loss; none where the code is shaped otherwise."""
    source = frame.source
    number = cut.number
    if isinstance(cut.quotient, ast.BinOp):
        number, size = cut.quotient.right, source.written(cut.quotient.left)
    else:
        size = cut.size
    if number is None or not size:
        return ()
    parts = source.written(number)
    if cut.form == "step":
        return (replaced(source, cut.quotient, f"-(-{size} // {_tight(number, parts)})"),)
    if not isinstance(cut.index, ast.Name) or cut.lower is None or cut.upper is None:
        return ()
    index = cut.index.id
    if isinstance(frame.node, FUNCTIONS) and index in [argument.arg for argument in frame.node.args.args]:
        return (*_bounds(frame, cut, size, parts), *_callers(execution, frame, cut, index))
    return _in_place(frame, cut, size, number)


def _bounds(frame: Frame, cut: Cut, size: str, parts: str) -> tuple[Edit, ...]:
    if cut.lower is None or cut.upper is None or not isinstance(cut.index, ast.Name):
        return ()
    index = cut.index.id
    return (
        replaced(frame.source, cut.lower, f"{index} * {size} // {parts}"),
        replaced(frame.source, cut.upper, f"({index} + 1) * {size} // {parts}"),
    )


def _in_place(frame: Frame, cut: Cut, size: str, number: ast.expr) -> tuple[Edit, ...]:
    """Fewer parts where there are fewer samples, under a name of its own, which then stands wherever the number stood."""
    source = frame.source
    begin = statement_of(cut.quotient)
    loop = loop_of(cut.use) if cut.use is not None else None
    if loop is not None and contains(loop, begin):
        begin = loop
    if not alone(source, begin) or (loop is None and not _listed(cut)):
        return ()
    name = _fresh(frame, "parts")
    wanted = ast.dump(number)
    region = loop_of(begin) or frame.node
    taken = [cut.lower, cut.upper]
    places = [
        node
        for node in source.nodes(type(number))
        if ast.dump(node) == wanted
        and contains(region, node)
        and node.lineno >= begin.lineno
        and not any(contains(bound, node) for bound in taken if bound is not None)
        and not (isinstance(cut.quotient, ast.Call) and contains(cut.quotient, node))
    ]
    found = [line_before(source, begin, f"{name} = min({source.written(number)}, {size})")]
    found += [replaced(source, place, name) for place in places]
    return (*found, *_bounds(frame, cut, size, name))


def _listed(cut: Cut) -> bool:
    """Whether the parts are made by a comprehension that counts them."""
    comprehensions = (ast.ListComp, ast.GeneratorExp)
    above = [parent for parent in parents(cut.use) if isinstance(parent, comprehensions)] if cut.use is not None else []
    return any(
        isinstance(generator.target, ast.Name) and isinstance(cut.index, ast.Name) and generator.target.id == cut.index.id
        for comprehension in above
        for generator in comprehension.generators
    )


def _callers(execution: Execution, frame: Frame, cut: Cut, index: str) -> Iterator[Edit]:
    """Where a function cuts one part, its caller must ask for no more parts than there are samples."""
    if not isinstance(frame.node, FUNCTIONS) or cut.use is None or not isinstance(cut.use.value, ast.Name):
        return
    names = [argument.arg for argument in frame.node.args.args]
    parts = cut.quotient.right if isinstance(cut.quotient, ast.BinOp) else cut.number
    if not isinstance(parts, ast.Name) or parts.id not in names or cut.use.value.id not in names:
        return
    shift = names[:1] == ["self"]
    for caller, call in callers(execution, frame):
        if caller.node is frame.node:
            continue
        given = [keyword(call, name, names.index(name) - shift) for name in (cut.use.value.id, index, parts.id)]
        whole, at, count = given
        begin = statement_of(call)
        loop = loop_of(call)
        if loop is not None and isinstance(at, ast.Name) and ast.unparse(getattr(loop, "target", at)) == at.id:
            begin = loop  # for i in range(n): part = cut(batch, i, n)
        if whole is None or count is None or not isinstance(at, ast.Name) or not alone(caller.source, begin):
            continue
        name = _fresh(caller, "parts")
        wanted = ast.dump(count)
        text, size = caller.source.written(count), _samples(frame, caller, whole)
        if size:
            yield line_before(caller.source, begin, f"{name} = min({text}, {size})")
            for node in caller.source.nodes(type(count)):
                if ast.dump(node) == wanted and contains(begin, node):
                    yield replaced(caller.source, node, name)
            yield from divisors(execution, caller, count)


def _samples(frame: Frame, caller: Frame, whole: ast.expr) -> str:
    """How many samples a batch holds that may be a tensor or a mapping of tensors."""
    text = caller.source.written(whole)
    mapping = ".items()" in frame.source.text[frame.source.span(_node(frame)).start : frame.source.span(_node(frame)).end]
    if not mapping:
        return f"len({text})"
    if caller.source.names.get("torch") != "torch":
        return ""
    return f"min(len(value) for value in {text}.values() if torch.is_tensor(value))"


def _node(frame: Frame) -> ast.stmt:
    if not isinstance(frame.node, FUNCTIONS):
        raise TypeError
    return frame.node


def _fresh(frame: Frame, name: str) -> str:
    used = {node.id for node in frame.source.nodes(ast.Name)}
    return name if name not in used else f"{name}_here"


def _tight(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else f"({text})"


def divisors(execution: Execution, maker: Frame, number: ast.expr) -> Iterator[Edit]:
    """The edits for each loop over what a function makes; none where the parts are handed on elsewhere."""
    names = [argument.arg for argument in maker.node.args.args] if isinstance(maker.node, FUNCTIONS) else []
    if not isinstance(number, ast.Name) or number.id not in names:
        return
    place = names.index(number.id) - (names[:1] == ["self"])
    for caller, call in callers(execution, maker):
        asked, begin = keyword(call, number.id, place), statement_of(call)
        if asked is None or caller.node is maker.node:
            continue
        wanted = ast.dump(asked)
        if isinstance(begin, (ast.For, ast.AsyncFor)) and contains(begin.iter, call) and alone(caller.source, begin):
            found = [one for one in _divided(caller, begin) if ast.dump(one) == wanted]
            if found:
                name = _fresh(caller, "chunks")
                text = caller.source.written(call)
                yield line_before(caller.source, begin, f"{name} = {text if _lists(maker) else f'list({text})'}")
                yield replaced(caller.source, call, name)
                yield from (replaced(caller.source, one, f"len({name})") for one in found)
        elif (
            _lists(maker)
            and isinstance(begin, ast.Assign)
            and begin.value is call
            and isinstance(begin.targets[0], ast.Name)
        ):
            name = begin.targets[0].id
            for loop in caller.source.nodes(ast.For):
                over = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.iter))
                if over and contains(caller.node, loop):
                    found = [one for one in _divided(caller, loop) if ast.dump(one) == wanted]
                    yield from (replaced(caller.source, one, f"len({name})") for one in found)


def _divided(frame: Frame, loop: ast.stmt) -> Iterator[ast.expr]:
    """What values in a loop are divided by."""
    for node in frame.source.nodes(ast.BinOp):
        if isinstance(node.op, ast.Div) and contains(loop, node):
            yield node.right
    for given in frame.source.nodes(ast.AugAssign):
        if isinstance(given.op, ast.Div) and contains(loop, given):
            yield given.value


def _lists(maker: Frame) -> bool:
    """Whether a function answers with a list, which has a length."""
    answers = [node.value for node in maker.source.nodes(ast.Return) if contains(maker.node, node)]
    return bool(answers) and all(isinstance(answer, (ast.List, ast.ListComp)) for answer in answers)
