"""The functions of a program that train, and who calls whom.

Calls are followed by their simple name: ``self.run_chunks(batch)`` leads to every ``run_chunks`` of the program, the one of
the same class or file first. That is wrong for a few names and right for nearly all that stand in a training loop; where
more than a few functions share a name nothing is followed.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._objects import last_name, objects
from crashcart.readers.code.source import FUNCTIONS, Function, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["Frame", "Loops", "after", "last_name", "loop_of", "loops_of", "receiver", "statement", "within"]

_FEW = 3
# Methods of torch's own objects: where they are called on something else than self, no function of the program is meant.
_FOREIGN = {"update", "step", "get", "set", "add", "append", "pop", "to", "load", "save", "close", "write", "read", "log", "reset",
            "zero_grad", "state_dict", "load_state_dict", "backward", "forward", "apply", "eval", "items", "keys", "values"}  # fmt: skip
_TRAINS = re.compile(r"train|run|engine|learn|solver|exp|workspace|agent|algo|loop|self|super", re.IGNORECASE)
_SCALER = re.compile(r"scaler", re.IGNORECASE)
_OPTIMIZER = re.compile(r"optim|(?:^|_)opts?(?:$|_)|(?:^|[._])opt\b", re.IGNORECASE)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Frame:
    """A function, or the statements of a file outside of all functions, with the calls that stand in it."""

    __slots__ = ("calls", "name", "node", "owner", "source")

    def __init__(self, source: Source, node: Function | ast.Module, owner: ast.ClassDef | None) -> None:
        self.source = source
        self.node = node
        self.name = node.name if isinstance(node, FUNCTIONS) else ""
        self.owner = owner
        self.calls: list[ast.Call] = []

    def named(self, *names: str) -> list[ast.Call]:
        """The calls here whose last word is one of these."""
        return [call for call in self.calls if last_name(call.func) in names]

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements."""
        return self.node.body


class Loops:
    """Every function of a program with its calls, and what the names of scalers are."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.frames: list[Frame] = []
        self._of: dict[ast.AST, Frame] = {}
        self._named: dict[str, list[Frame]] = {}
        self._sites: dict[str, list[tuple[Frame, ast.Call]]] = {}
        for source in program.sources:
            self._file(source)
        self._held = objects(program)
        self.scalers = frozenset(self._scalers())
        self._doing: dict[tuple[Frame, str], bool] = {}

    def _file(self, source: Source) -> None:
        self._frame(Frame(source, source.tree, None))
        functions: list[Function] = [*source.nodes(ast.FunctionDef), *source.nodes(ast.AsyncFunctionDef)]
        for node in functions:
            owner = next((one for one in parents(node) if isinstance(one, (ast.ClassDef, *FUNCTIONS))), None)
            self._frame(Frame(source, node, owner if isinstance(owner, ast.ClassDef) else None))
        for call in source.nodes(ast.Call):
            frame = self.frame(call)
            frame.calls.append(call)
            self._sites.setdefault(last_name(call.func), []).append((frame, call))

    def _frame(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._of[frame.node] = frame
        if frame.name:
            self._named.setdefault(frame.name, []).append(frame)

    def frame(self, node: ast.AST) -> Frame:
        """The function in which a node stands."""
        above = next(one for one in parents(node) if one in self._of)
        return self._of[above]

    def callers(self, frame: Frame) -> list[tuple[Frame, ast.Call]]:
        """The places that call a function of that name; none where the name is used for too many things."""
        if frame.name == "__init__" and frame.owner is not None:
            return self._sites.get(frame.owner.name, [])
        if not frame.name or len(self._named[frame.name]) > _FEW:
            return []
        return [(other, call) for other, call in self._sites.get(frame.name, ()) if frame in self.callees(other, call)]

    def callees(self, frame: Frame, call: ast.Call) -> list[Frame]:
        """The functions of the program that a call may mean: of the same class, else of the same file, else any."""
        name = last_name(call.func)
        found = self._named.get(name, [])
        if not found:
            return []
        on = name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if on and on != "self" and (kinds := self._held.get(on.rpartition(".")[2])):
            return [one for one in found if one.owner is not None and one.owner.name in kinds]
        if on and on != "self" and (name in _FOREIGN or (name == "train" and not _TRAINS.search(on))):
            return []
        if on == "self" and frame.owner is not None:
            own = [one for one in found if one.owner is frame.owner]
            found = own or found
        near = [one for one in found if one.source is frame.source]
        found = near or found
        return found if len(found) <= _FEW else []

    def _scalers(self) -> Iterator[str]:
        """The last words of names that hold a gradient scaler: made as one, or used as nothing else is."""
        for _, call in self._sites.get("GradScaler", ()):
            yield from (last_name(target) for target in _targets(call))
        for _, call in self._sites.get("unscale_", ()):
            yield last_name(receiver(call))

    def is_scaler(self, node: ast.AST) -> bool:
        """Whether an expression is called like a gradient scaler of this program."""
        return last_name(node) in self.scalers

    def is_backward(self, call: ast.Call) -> bool:
        """``loss.backward()``, ``scaler.scale(loss).backward()``, ``accelerator.backward(loss)``; no definition of one."""
        return last_name(call.func) in {"backward", "manual_backward"} and name_of(call.func) != "super.backward"

    def is_step(self, call: ast.Call) -> bool:
        """``scaler.step(optimizer)``, ``optimizer.step()``."""
        if last_name(call.func) != "step" or not isinstance(call.func, ast.Attribute):
            return False
        return self.is_scaler(call.func.value) or bool(_OPTIMIZER.search(last_name(call.func.value)))

    def does(self, frame: Frame, call: ast.Call, what: str, depth: int = 3) -> bool:
        """Whether a call goes backward (``backward``), steps (``step``) or clears gradients (``zero_grad``), itself or inside."""
        if what == "backward":
            found = self.is_backward(call)
        elif what == "step":
            found = self.is_step(call)
        elif what == "scaler_step":
            found = self.is_step(call) and self.is_scaler(receiver(call))
        else:
            found = last_name(call.func) == what
        return found or (depth > 0 and any(self.inside(one, what, depth - 1) for one in self.callees(frame, call)))

    def inside(self, frame: Frame, what: str, depth: int = 2) -> bool:
        """Whether a function does it."""
        key = (frame, what)
        if key not in self._doing:
            self._doing[key] = False  # a function that calls itself
            self._doing[key] = any(self.does(frame, call, what, depth) for call in frame.calls)
        return self._doing[key]

    @property
    def distributed(self) -> bool:
        """Whether the program can be run as several ranks that train together."""
        names = ("DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard", "init_process_group",
                 "Fabric", "manual_backward", "prepare_model", "DistributedOptimizer", "MMDistributedDataParallel")  # fmt: skip
        if any(self._sites.get(name) for name in names) or self.program.imports("accelerate", "deepspeed"):
            return True
        bases = (base for source in self.program.sources for node in source.nodes(ast.ClassDef) for base in node.bases)
        return self.program.imports("transformers", "trl") and any(last_name(base).endswith("Trainer") for base in bases)


_last: list[tuple[Program, Loops]] = []


def loops_of(program: Program) -> Loops:
    """What is known of a program's functions, found once for all rules."""
    if not _last or _last[0][0] is not program:
        _last[:] = [(program, Loops(program))]
    return _last[0][1]


def _targets(call: ast.Call) -> Iterator[ast.AST]:
    """What a call is assigned to, also by way of ``x if y else z``."""
    for above in parents(call):
        if isinstance(above, ast.Assign):
            yield from above.targets
        elif isinstance(above, ast.AnnAssign):
            yield above.target
        if isinstance(above, ast.stmt):
            return


def receiver(call: ast.Call) -> ast.AST:
    """What a method is called on."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def statement(node: ast.AST) -> ast.stmt:
    """The statement in which an expression stands."""
    return node if isinstance(node, ast.stmt) else next(one for one in parents(node) if isinstance(one, ast.stmt))


def loop_of(node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    """The nearest loop around a node, in the same function."""
    for above in parents(node):
        if isinstance(above, LOOPS):
            return above
        if isinstance(above, (*FUNCTIONS, ast.Lambda)):
            return None
    return None


def within(node: ast.AST, above: ast.AST | None) -> bool:
    """Whether a node stands somewhere below another."""
    return above is not None and (node is above or any(one is above for one in parents(node)))


def after(calls: Iterable[ast.Call], node: ast.stmt) -> list[ast.Call]:
    """The calls that are written after the end of a statement."""
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return [call for call in calls if (call.lineno, call.col_offset) >= end]
