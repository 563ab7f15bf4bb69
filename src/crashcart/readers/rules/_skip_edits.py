"""Edits that make a skipped batch harmless: leave out its step too, close the scaler's record, decide on all ranks.

Each function gives edits, or nothing where the code is not shaped so that whole lines can be put in safely.
"""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import alone, indent_of, line_after, line_before, replaced, step_of
from crashcart.readers.code.source import FUNCTIONS, name_of, parent
from crashcart.readers.interpreter.values import Result
from crashcart.readers.rules._rounds import loop_call
from crashcart.readers.rules._scaler_state import kind_of
from crashcart.readers.rules._statements import block_of, contains, free_name, function_of, loop_of, statement_of

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Region
    from crashcart.readers.rules._rounds import Way

__all__ = ["Skip"]

Edits = tuple[Edit, ...]


class Skip:
    """A batch that is left out: the way of a fine round, the loop, and the place where the bad one leaves or is passed over."""

    def __init__(self, execution: Execution, loop: Region, way: Way, source: Source, node: ast.stmt) -> None:
        self.execution, self.loop, self.way, self.source, self.node = execution, loop, way, source, node

    def calls(self, *kinds: str) -> list[Call]:
        """The calls of a fine round of some kinds."""
        return [event for event in self.way.events if kind_of(event) in kinds and hasattr(event, "arguments")]  # type: ignore[misc]

    # ---- the scaler's record stays open

    def close_record(self) -> Edits:
        """``update()``, and cleared gradients, before the batch is left out."""
        unscale = next(
            (call for call in self.calls("scaler.unscale_") if function_of(call.node) is function_of(self.node)), None
        )
        if unscale is None or not alone(self.source, self.node) or not isinstance(unscale.node, ast.Call):
            return ()
        block = block_of(self.node)
        clears = any("zero_grad" in self.source.written(statement) for statement in block)
        scaler = ast.unparse(unscale.node.func.value)  # type: ignore[attr-defined]
        lines = ([] if clears else self.clearing(function_of(self.node), self.source)) + [f"{scaler}.update()"]
        return (line_before(self.source, self.node, *lines),)

    # ---- the step is taken all the same

    def leave_out_step(self) -> Edits:
        """The step is left out with its batch."""
        if isinstance(self.node, ast.If):
            return self._in_other_arm(self.node)
        if isinstance(self.node, ast.Return):
            return self._told_to_caller(self.node)
        return self._remembered_by_loop()

    def _in_other_arm(self, node: ast.If) -> Edits:
        """``else: continue`` behind a backward pass under a guard."""
        way_out = self._way_out(loop_of(node))
        backward = next((call for call in self.calls("backward") if contains(node, call.node)), None)
        in_body = backward is not None and any(contains(statement, backward.node) for statement in node.body)
        if way_out is None or not in_body or not alone(self.source, node) or node.orelse:
            return ()
        inner = step_of(self.source)
        lines = [f"{inner}{line}" for line in [*self.clearing(function_of(node), self.source), way_out]]
        return (line_after(self.source, node, "else:", *lines, indent=indent_of(self.source, node.lineno)),)

    def _remembered_by_loop(self) -> Edits:
        """A loop over parts of a batch remembers whether any of them went backward; else the step is left out."""
        inner_loop = loop_of(self.node)
        backward = next(
            (call for call in self.calls("backward") if inner_loop is not None and contains(inner_loop, call.node)), None
        )
        way_out = self._way_out(loop_of(inner_loop)) if inner_loop is not None else None
        if inner_loop is None or backward is None or way_out is None or not alone(self.source, inner_loop):
            return ()
        statement = statement_of(backward.node)
        if not alone(self.source, statement):
            return ()
        name, inner = free_name(function_of(self.node), "went_backward"), step_of(self.source)
        clearing = [f"{inner}{line}" for line in self.clearing(function_of(self.node), self.source)]
        noted = line_after(self.source, statement, f"{name} = True")
        asked = line_after(
            self.source,
            inner_loop,
            f"if not {name}:",
            *clearing,
            f"{inner}{way_out}",
            indent=indent_of(self.source, inner_loop.lineno),
        )
        before = line_before(self.source, inner_loop, f"{name} = False")
        return (before, Edit(noted.span, noted.text + asked.text)) if noted.span == asked.span else (before, noted, asked)

    def _told_to_caller(self, node: ast.Return) -> Edits:
        """The function says whether the batch went backward, and its caller leaves out the step."""
        function = function_of(node)
        made = [call for call in self.execution.trace.calls if call.function is not None and call.function.node is function]
        if len({id(call.node) for call in made}) != 1 or not isinstance(function, FUNCTIONS):
            return ()
        call = made[0]
        statement = statement_of(call.node)
        source, outer_loop = call.source, loop_of(call.node)
        if not alone(source, statement) or getattr(statement, "value", None) is not call.node:
            return ()
        guard = self._scaler_lines(call, statement) if isinstance(outer_loop, ast.While) else None
        way_out = "" if guard is not None else self._way_out(outer_loop, function_of(call.node))
        leaves = self._leaves_of(function, node)
        returns = [node for node in ast.walk(function) if isinstance(node, ast.Return) and function_of(node) is function]
        answers = any(node not in leaves and node.value is not None and not _is_none(node.value) for node in returns)
        if way_out is None or (not answers and not isinstance(statement, ast.Expr)) or (guard is not None and answers):
            return ()
        name = free_name(function_of(call.node), "outcome" if answers else "finite")
        edits = (
            [replaced(self.source, node, "return None") for node in leaves]
            if answers
            else self._says_whether(function, leaves, returns)
        )
        behind: list[str] = []
        start = source.span(statement).start
        if isinstance(statement, ast.Expr):
            edits.append(Edit(Span(source.path, start, start, statement.lineno), f"{name} = "))
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                name = target.id
            else:
                edits.append(replaced(source, target, name))
                behind = [f"{source.written(target)} = {name}"]
        else:
            return ()
        if guard is not None:
            first, last = guard
            return (*edits, _indented_under(source, first, last, f"if {name}:"))
        inner = step_of(source)
        lines = [f"if {name} is None:" if answers else f"if not {name}:"]
        lines += [f"{inner}{line}" for line in [*self.clearing(function_of(call.node), source), way_out]]
        return (*edits, line_after(source, statement, *lines, *behind))

    def _leaves_of(self, function: ast.AST, node: ast.Return) -> list[ast.Return]:
        """Every ``return`` of a function that is taken for a value that is not finite."""
        found: dict[int, ast.Return] = {}
        for leave in self.execution.trace.leaves:
            under = leave.region.kind == "branch" and leave.region.test is not None and "finite" in leave.region.test.tags
            if under and isinstance(leave.node, ast.Return) and function_of(leave.node) is function:
                arm = parent(statement_of(leave.node))
                if isinstance(arm, ast.If):
                    found[id(leave.node)] = leave.node
        found.setdefault(id(node), node)
        return sorted(found.values(), key=lambda leave: leave.lineno)

    def _says_whether(self, function: Function, leaves: list[ast.Return], returns: list[ast.Return]) -> list[Edit]:
        """A function that answered nothing says whether the batch went backward."""
        edits = [replaced(self.source, node, "return False" if node in leaves else "return True") for node in returns]
        last = function.body[-1]
        if not isinstance(last, ast.Return):
            edits.append(line_after(self.source, last, "return True", indent=indent_of(self.source, last.lineno)))
        if function.returns is not None and _is_none(function.returns):
            edits.append(replaced(self.source, function.returns, "bool"))
        return edits

    def _scaler_lines(self, call: Call, statement: ast.stmt) -> tuple[ast.stmt, ast.stmt] | None:
        """The first and the last statement behind a call that belong to the scaler: a loop that counts its own steps must not be cut short."""
        block = block_of(statement)
        later = block[block.index(statement) + 1 :]
        calls = [
            each for each in self.calls("scaler.unscale_", "scaler.step", "scaler.update") if each.source is call.source
        ]
        numbers = [number for number, each in enumerate(later) if any(contains(each, found.node) for found in calls)]
        if not numbers or not all(alone(call.source, each) for each in later[numbers[0] : numbers[-1] + 1]):
            return None
        return later[numbers[0]], later[numbers[-1]]

    def _way_out(self, loop: ast.AST | None, function: ast.AST | None = None) -> str | None:
        """How the rest of a step is left out: the next batch of a loop, or the end of a function that answers nothing."""
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            return "continue"
        if loop is None and isinstance(function, FUNCTIONS):
            answers = [node for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
            return None if answers else "return"
        return None

    # ---- ranks

    def decide_together(self, test: ast.If | None, bad_is_true: bool) -> Edits:  # noqa: FBT001 - told with the test
        """Let all ranks take the same branch: the worst answer of any of them counts for each."""
        if test is None or not alone(self.source, test) or self.source.names.get("torch") != "torch":
            return ()
        above = parent(test)
        tensor = self._tensor_before(test) or self._weight_of_model(test)
        if tensor is None or (isinstance(above, ast.If) and test in above.orelse) or "\n" in self.source.written(test.test):
            return ()
        name = free_name(function_of(test), "skip" if bad_is_true else "keep")
        inner = step_of(self.source)
        lines = (
            f"{name} = torch.tensor(float(bool({self.source.written(test.test)})), device={tensor}.device)",
            "if torch.distributed.is_available() and torch.distributed.is_initialized():",
            f"{inner}torch.distributed.all_reduce({name}, op=torch.distributed.ReduceOp.{'MAX' if bad_is_true else 'MIN'})",
        )
        return (line_before(self.source, test, *lines), replaced(self.source, test.test, f"{name}.item()"))

    def _tensor_before(self, test: ast.If) -> str | None:
        """The name of the tensor that goes backward, where it is set in the function before the test."""
        function = function_of(test)
        stored = {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and (node.lineno < test.lineno or contains(test.test, node))
        }
        names: list[str] = []
        for call in self.calls("backward"):
            place = next((each for each in (call, *call.calls_above()) if function_of(each.node) is function), None)
            if place is not None:
                names += [node.id for node in ast.walk(place.node) if isinstance(node, ast.Name)]
        return next((name for name in names if name in stored), None)

    def _weight_of_model(self, test: ast.If) -> str | None:
        """A weight of the model that the round calls by a name of the same function."""
        for call in self.loop.events():
            func = getattr(call.node, "func", None)
            is_model = getattr(call, "method", "") == "__call__" and isinstance(getattr(call, "receiver", None), Result)
            if is_model and isinstance(func, ast.Name) and function_of(call.node) is function_of(test):
                return f"next({func.id}.parameters())"
        return None

    # ---- gradients

    def clearing(self, function: ast.AST, source: Source) -> list[str]:
        """The lines that clear the gradients, in the words of a function of the program."""
        for call in [*self.calls("clear"), *self.calls("scaler.step")]:
            if function_of(call.node) is function:
                return _clearing_lines(source, call)
        for call in self.calls("clear"):
            statement = statement_of(call.node)
            text = call.source.written(statement)
            if not isinstance(statement, ast.Expr) or not text.startswith("self.") or "\n" in text:
                continue
            if parent(function_of(call.node)) is parent(function):  # another method of the class
                return [text]
            outer = loop_call(call, self.loop)
            if outer is not None and isinstance(outer.node, ast.Call) and function_of(outer.node) is function:
                owner = name_of(outer.node.func).rpartition(".")[0]
                if owner:
                    return [f"{owner}.{text.removeprefix('self.')}"]
        return []


def _clearing_lines(source: Source, call: Call) -> list[str]:
    statement = statement_of(call.node)
    if not isinstance(statement, ast.Expr) or statement.value is not call.node or not isinstance(call.node, ast.Call):
        return []
    if call.method == "zero_grad":
        line = source.written(statement)
    elif call.node.args:
        line = f"{ast.unparse(call.node.args[0])}.zero_grad(set_to_none=True)"
    else:
        return []
    around = parent(statement)
    if isinstance(around, ast.For) and len(around.body) == 1:
        return [f"for {ast.unparse(around.target)} in {ast.unparse(around.iter)}:", f"{step_of(source)}{line}"]
    return textwrap.dedent(line).split("\n")


def _indented_under(source: Source, first: ast.stmt, last: ast.stmt, head: str) -> Edit:
    """Statements put one step further in, under a line of their own."""
    start, end = source.offset(first.lineno, 0), source.span(last).end
    blanks, inner = indent_of(source, first.lineno), step_of(source)
    text = "\n".join(f"{inner}{line}" if line.strip() else line for line in source.text[start:end].split("\n"))
    return Edit(Span(source.path, start, end, first.lineno), f"{blanks}{head}\n{text}")


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
