"""Runs a program in thought: from its entry file, with the arguments it will be launched with, through its own functions.

What is known is computed as Python would; what is not known stays unknown, and both arms of a branch on it are followed. Nothing of
the program is imported or executed. The result is a trace: every call and write in order, with the ranks, loops, tests and calls
around it. Ranks are followed two at a time: rank 0 and any other (`PerRank`), so that a branch on the rank is two known ways.

A loop is followed once for each item of a short known list; else twice: once quietly, to see what changes from round to round, and
once with that unknown. A function is followed at each call, up to a depth, a number of calls and a time.
"""

from __future__ import annotations

import ast
import operator
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crashcart.deadline import check, grown_bytes, resident_bytes
from crashcart.model import Fact
from crashcart.names import canonical
from crashcart.readers.interpreter.intervals import bounds_of, combined
from crashcart.readers.interpreter.lengths import Length, LengthTest, added_to_total, compared_length, worked_out
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE, Fork, Store
from crashcart.readers.interpreter.trace import Call, Decision, Division, Failure, Leave, Region, Slice, Trace, Write
from crashcart.readers.interpreter.values import (
    LONGEST_TEXT,
    RAISED,
    Bound,
    Choice,
    Class,
    Constant,
    Container,
    Deferred,
    Function,
    Generator,
    Instance,
    Library,
    Module,
    Partial,
    PerRank,
    Result,
    Super,
    Unknown,
    Value,
    constant_of,
    either,
    hashable,
    join,
    made_number,
    made_text,
    origins_of,
    small_tags,
    tags_of,
    unknown_from,
)
from crashcart.record import replace
from crashcart.secret_search import HIDDEN, stands_for_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.launch import Launch
    from crashcart.readers.interpreter.modules import Modules

__all__ = ["Frame", "Interpreter", "OutOfSteps", "calculate"]

_MOST_STEPS = 400_000
_MOST_MEMORY = 80 << 20  # bytes that all programs which a call follows may take together with what is read beside them
_LEAST_MEMORY = 1 << 20  # bytes that each may take in any case
_WORK_BETWEEN_LOOKS, _ITEMS_BETWEEN_LOOKS = 256, 1 << 16
_DEEPEST = 48
_FREE_REPEATS = 3  # calls of one function that are followed whatever they cost
_MOST_SPENT = 10_000  # steps that all calls of one function may take
_MOST_RECURSION = 2
_MOST_KNOWN_RECURSION = 8  # of a function that goes down a known structure
_MOST_UNROLLED = 12
_MOST_PLAIN = 240  # rounds of a loop without another in it, such as one that adds flags for a table of settings
_MOST_NODES = 30_000  # parts of statements that all its rounds may have together
_MOST_ITEMS = 4096
_MOST_EAGER = (
    60  # files whose bodies are followed when they are imported; of larger programs the rest when a name is asked for
)
_MOST_EAGER_LINES = 12_000  # of them together: the tree of a line takes about a kilobyte
_CHEAP_ROUND = 4_000  # steps of a round that is followed quietly a second time
_MOST_FOLLOWED, _DEAR_IMPORTS = 150, 8_000  # files and steps beyond which no body is followed before that
_MOST_COMBINATIONS = 16

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
# Which side of an edge a comparison leaves, and whether the edge belongs to it, by its outcome.
_COMPARISONS: dict[tuple[type, bool], tuple[bool | None, bool | None]] = {
    (ast.Lt, True): (True, False), (ast.Lt, False): (False, True), (ast.LtE, True): (True, True), (ast.LtE, False): (False, False),
    (ast.Gt, True): (False, False), (ast.Gt, False): (True, True), (ast.GtE, True): (False, True), (ast.GtE, False): (True, False),
    (ast.Eq, False): (None, False), (ast.NotEq, True): (None, False),
}  # fmt: skip
_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitOr: "|", ast.BitAnd: "&",
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Pow: "**", ast.MatMult: "@",
}  # fmt: skip


class OutOfSteps(BaseException):  # no error: whoever catches errors on the way must not catch it
    """The program is larger than what is followed."""


class Frame:
    """A call under way: its names are in the store under the frame."""

    __slots__ = (
        "bound", "cls", "declared", "fork", "function", "guards", "is_captured", "last_test", "loops", "module", "outer", "receiver", "refuses", "returns", "source", "yielded",
    )  # fmt: skip

    def __init__(self, source: Source, module: Module, outer: object = None, function: Function | None = None) -> None:
        self.source, self.module, self.outer, self.function = source, module, outer, function
        self.declared: dict[str, object] = {}  # names declared global or nonlocal, with their owner
        self.returns: list[tuple[str, Value]] = []
        self.fork: Fork | None = None
        self.loops: list[tuple[Fork, list[str]]] = []
        self.yielded: Callable[[Value], Value] | None = None
        self.receiver: Value | None = None
        self.cls: Class | None = None
        self.bound: dict[str, None] = {}
        self.last_test: tuple[Value, Region] | None = None  # the last that was decided and whose other arm leads away
        self.refuses = False  # in an ``else`` that only says something and ends the program
        self.guards = 0  # bodies of a ``try`` with handlers around the present place
        self.is_captured = False  # a function or class made here may outlive the call


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a block ends by leaving its function or the round of its loop."""
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


class _Arm:
    """One of two ways at a branch: what is done there, under which test, and on which ranks where not on all."""

    __slots__ = ("follow", "sense", "side", "test")

    def __init__(self, follow: Callable[[], bool], test: Value | None, *, sense: bool = True, side: str = "") -> None:
        self.follow, self.test, self.sense, self.side = follow, test, sense, side


class Interpreter:
    """One run of a program in thought."""

    def __init__(self, modules: Modules, launch: Launch, libraries: Any) -> None:  # noqa: ANN401 - see libraries
        self.modules, self.launch, self.libraries = modules, launch, libraries
        self.store = Store()
        self.loaded: dict[str, Module] = {}
        self.names: dict[Module, dict[str, None]] = {}
        self.steps = 0
        self.work = 0  # expressions since the last look at the clock and the memory
        self.depth = 0
        self.quiet = 0
        self.stack: list[Function] = []
        self.repeats: dict[ast.AST, int] = {}
        self.spent: dict[ast.AST, int] = {}
        self.classes: list[Class] = []
        self._methods: dict[str, list[Class]] = {}
        self.unresolved = 0
        self.left_out: set[ast.AST] = set()  # functions of which some calls were not followed
        self.rank_tests: set[ast.AST] = (
            set()
        )  # expressions that are true on rank 0 and false on the others, or the other way
        self.frame: Frame = None  # type: ignore[assignment]
        self.region: Region = None  # type: ignore[assignment]
        self.trace: Trace = None  # type: ignore[assignment]
        self.exhausted = False
        self.most_memory = resident_bytes() + max(_LEAST_MEMORY, _MOST_MEMORY - grown_bytes())
        self.composed: list[tuple[Container, list[str]]] = []  # the configs that Hydra made, with their files
        self.callables: list[tuple[Value, str]] = []  # unknown things that were called; ``called:N`` is the N-th
        self.forward_results: dict[
            int, tuple[Value, dict[Any, Any]]
        ] = {}  # what a model gives and holds, by its ``forward``
        self.seen_forwards: set[ast.AST] = set()  # those that were followed in a round that is no quiet one
        self.models: set[int] = set()  # those among them whose results go backward
        self.started_with = replace(launch)
        self.known_tests: list[tuple[Frame, Value, Region]] = []  # of the branches under way that were decided
        self.finite_at: Callable[[ast.AST], bool] | None = None  # whether the value tested for NaN at a place is finite
        self.counts: dict[int, tuple[Value, Value]] = {}  # numbers of samples, each with what it counts
        self.samples: int | None = None  # how many samples are divided, as is assumed
        self.called: ast.AST | None = None  # the function of the call that is being evaluated
        self.failed = 0  # errors that Python would raise for known values
        self.opaque = 0  # things that may raise without our knowing
        self.endless = 0  # calls that were not followed since they call themselves again, perhaps without an end
        self.unknown_imports = 0  # imports by a name that is not known
        self.imports_unseen = False  # whether a module that was not followed may have registered what a name stands for
        self._expressions: dict[type, Callable[[Any], Value]] = {
            kind: getattr(self, f"_eval_{kind.__name__}")
            for kind in vars(ast).values()
            if isinstance(kind, type) and hasattr(self, f"_eval_{kind.__name__}")
        }
        self._statements: dict[type, Callable[[Any], bool]] = {
            kind: getattr(self, f"_exec_{kind.__name__}")
            for kind in vars(ast).values()
            if isinstance(kind, type) and hasattr(self, f"_exec_{kind.__name__}")
        }

    # ---- the program

    def again(self) -> Interpreter:
        """Another interpreter for the same program and launch, to follow it under an assumption."""
        other = Interpreter(self.modules, replace(self.started_with), self.libraries)
        other.most_memory = self.most_memory  # of both together
        return other

    def run(self, source: Source, call: str = "") -> Trace:
        """Follow the program from its entry file on; ``call`` names a function to call after it."""
        module = Module("__main__", source)
        self.region = Region("module", None, source, source.tree)
        self.trace = Trace(self.region)
        self.loaded[source.path] = module
        self.frame = Frame(source, module)
        try:
            self._module_body(module, source, "__main__" if not call else "program")
            if call:
                self.call(
                    self.store.get(module, call) or Unknown(),
                    [],
                    {},
                    source.tree.body[-1] if source.tree.body else source.tree,
                )
        except OutOfSteps:
            self.exhausted = True
        return self.trace

    def _module_body(self, module: Module, source: Source, name: str) -> None:
        self.bind_global(module, "__name__", Constant(name))
        self.bind_global(module, "__file__", Constant(source.path))
        frame, self.frame = self.frame, Frame(source, module)
        self.frame.fork = Fork(self.store)
        try:
            self.block(source.tree.body)
        finally:
            self.frame = frame

    def bind_global(self, module: Module, name: str, value: Value) -> None:
        """Give a name of a module a value."""
        self.names.setdefault(module, {})[name] = None
        self.store.set(module, name, value)

    def import_file(self, path: str, name: str) -> Module | None:
        """A module of the program, its body followed once."""
        known = self.loaded.get(path)
        if known is not None:
            return known
        if path.endswith("/"):
            module = self.loaded[path] = Module(name, None)
            self.bind_global(module, "__path__", Constant(path))
            return module
        source = self.modules.source(path)
        if source is None:
            return None
        module = self.loaded[path] = Module(name, source)
        region, self.region = self.region, Region("module", self.region, source, source.tree, attach=not self.quiet)
        log, self.store.log = self.store.log, []  # what a module defines stays, whatever way led to the import
        quiet, depth = self.quiet, self.depth
        self.quiet, self.depth = 0, 0
        try:
            self._module_body(module, source, name)
        finally:
            self.region, self.store.log, self.quiet, self.depth = region, log, quiet, depth
        return module

    def tick(self) -> None:
        """Count a step."""
        self.steps += 1
        self.work += 1
        if self.steps > _MOST_STEPS:
            raise OutOfSteps
        if self.work > _WORK_BETWEEN_LOOKS:
            self._look()

    def _look(self) -> None:
        """Look at the clock and the memory: every so many expressions, since one statement may hold thousands that make something."""
        self.work, self.store.written = 0, 0
        check()
        if resident_bytes() > self.most_memory:
            raise OutOfSteps

    # ---- events

    def record(self, kind: type, node: ast.AST, *details: Any, **more: Any) -> Any:  # noqa: ANN401 - an event of that kind
        """Make an event at the present place; in a quiet round it belongs to nothing."""
        region = self.region if not self.quiet else Region("quiet", None, self.frame.source, node)
        self.trace.number += 1
        event = kind(region, self.frame.source, node, self.trace.number, *details, **more)
        if self.quiet:
            region.children.clear()  # nobody goes through it, and what points back would keep the memory
        elif kind is Call:
            self.trace.add(event)
        elif kind is Write:
            self.trace.writes.append(event)
        elif kind is Leave:
            self.trace.leaves.append(event)
        elif kind is Failure:
            self.trace.failures.append(event)
        elif kind is Decision:
            self.trace.decisions.append(event)
        elif kind is Division:
            self.trace.divisions.append(event)
        elif kind is Slice:
            self.trace.slices.append(event)
        return event

    def fail(
        self,
        node: ast.AST,
        error: str,
        says: str,
        *values: Value,
        place: ast.expr | None = None,
        choices: tuple[Any, ...] = (),
    ) -> Value:
        """Python will raise here; the way goes on with an unknown value. ``place`` is the argument that it is about.

        ``choices`` are what would have been accepted.
        """
        if says and any(map(_is_secret, values)):
            says = HIDDEN  # it may quote the value in another form
        failure = self.record(Failure, node, error, says, values)
        failure.place, failure.choices = place, choices
        self.failed += 1
        return unknown_from(*values)

    def decide(self, node: ast.AST, value: Value, word: str | None = None) -> None:
        """A setting decides about the way, as it is or compared with a word."""
        if isinstance(value, Constant) and value.direct and value.origins:
            self.record(Decision, node, value, word)

    @contextmanager
    def inside(self, kind: str, node: ast.AST | None, **more: Any) -> Iterator[Region]:  # noqa: ANN401 - see Region
        """Do something in a region of its own."""
        before = self.region
        region = self.region = Region(kind, before, self.frame.source, node, attach=not self.quiet, **more)
        region.number = self.trace.number
        try:
            yield region
        finally:
            is_empty = kind == "option" and not region.children and before.children[-1:] == [region]
            if is_empty:  # nothing happened there, and there are as many as values can be combined
                before.children.pop()
            self.region = before

    @property
    def side(self) -> str:
        """``first`` or ``others`` where only they come here."""
        return self.region.ranks()

    # ---- statements: whether control can go on behind them

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Follow statements; whether control can come behind the last."""
        frame, depth, quiet, loops, calls = self.frame, self.depth, self.quiet, len(self.frame.loops), len(self.stack)
        for statement in body:
            self.tick()
            handler = self._statements.get(statement.__class__)
            region = self.region
            try:
                if handler is not None and not handler(statement):
                    return False
            except RecursionError:  # nested too deeply to be followed: the rest of the program still is
                self.frame, self.region, self.depth, self.quiet = frame, region, depth, quiet
                del frame.loops[loops:], self.stack[calls:]
                self.unresolved += 1
        return True

    def _exec_Expr(self, node: ast.Expr) -> bool:
        value = self.evaluate(node.value)
        if not (isinstance(value, Result) and value.name in self.libraries.ENDS):
            return True
        code = value.argument(0) if value.name != "never" else None
        is_error = code is not None and constant_of(code, "text") not in {0, None}
        if is_error or (self.frame.refuses and value.name != "never"):
            self._end_by_test(node, "SystemExit", str(constant_of(code, "")))
        return False

    def _exec_Assign(self, node: ast.Assign) -> bool:
        value = self._given_back(node, self.evaluate(node.value))
        for target in node.targets:
            self.assign(target, value, node)
        return True

    def _given_back(self, node: ast.Assign, value: Value) -> Value:
        """What a library gives back under the names that it was given: ``model, optimizer = amp.initialize(model, optimizer)``."""
        if not isinstance(node.value, ast.Call) or not _is_opaque(value, self.libraries):
            return value
        words = [*node.value.args, *(keyword.value for keyword in node.value.keywords)]
        given = {ast.dump(word): word for word in words if isinstance(word, (ast.Name, ast.Attribute))}
        target = node.targets[0]
        several = isinstance(target, ast.Tuple)
        names = [_as_read(each) for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
        if not any(name in given for name in names) or (several and "loop" in value.tags):
            return value
        parts = self.libraries.parts_of(self, value, len(names)) if several else None
        if parts is not None:
            return value
        kept = [self.evaluate(given[name]) if name in given else unknown_from(value) for name in names]
        kept = [part if self.libraries.is_lasting(part) else unknown_from(value) for part in kept]
        if several:
            return self.container("tuple", kept, node.value)
        return kept[0] if self.libraries.is_lasting(kept[0]) else value

    def _exec_AnnAssign(self, node: ast.AnnAssign) -> bool:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value), node)
        elif isinstance(node.target, ast.Name) and isinstance(self.frame.outer, Class) and self.frame.cls is not None:
            pass
        return True

    def _exec_AugAssign(self, node: ast.AugAssign) -> bool:
        before = self.evaluate(node.target)
        added = self.evaluate(node.value)
        if isinstance(before, Container) and isinstance(node.op, ast.Add) and before.kind == "list":
            self.libraries.extend(self, before, added)
            self.record(Write, node, before, "+=", added, before)
            return True
        value = self.binary(node.op, before, added, node)
        self.assign(node.target, value, node, before=before)
        return True

    def _exec_Delete(self, node: ast.Delete) -> bool:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.store.delete(self.frame, target.id)
            elif isinstance(target, ast.Subscript):
                owner, key = self.evaluate(target.value), self.evaluate(target.slice)
                self.record(Call, node, "del", [], {}, receiver=owner)
                if isinstance(owner, Container) and not self._delete_item(owner, key):
                    self.libraries.open_up(self, owner)
        return True

    def _delete_item(self, owner: Container, key: Value) -> bool:
        """Take a known item out of what is known whole."""
        plain, content = constant_of(key, self), self.items(owner)
        if plain is self or self.store.get(owner, "open"):
            return False
        if isinstance(content, dict) and _hashable(plain) and plain in content:
            self.store.set(owner, "items", {name: value for name, value in content.items() if name != plain})
            return True
        if isinstance(content, tuple) and type(plain) is int and -len(content) <= plain < len(content):
            self.store.set(
                owner, "items", tuple(value for place, value in enumerate(content) if place != plain % len(content))
            )
            return True
        return False

    def _exec_Return(self, node: ast.Return) -> bool:
        failed = self.failed
        value = self.evaluate(node.value) if node.value is not None else NONE
        if self.failed > failed and self.frame.guards:
            return False  # a handler goes on
        self.record(Leave, node, "return", value)
        self.frame.returns.append((self.side, value))
        if self.frame.fork is not None:
            self.frame.fork.keep()
        return False

    def _exec_Raise(self, node: ast.Raise) -> bool:
        value = self.evaluate(node.exc) if node.exc is not None else None
        self.record(Leave, node, "raise", value)
        if value is not None:
            name = value.name if isinstance(value, Result) else value.cls.name if isinstance(value, Instance) else ""
            self._end_by_test(node, name.rpartition(".")[2] or "Exception", _message_of(value))
        return False

    def _end_by_test(self, node: ast.stmt, error: str, says: str) -> None:
        """The program ends itself here because of a test of settings: the one around, else the last before it in the function."""
        around = [(test, region) for frame, test, region in self.known_tests if frame is self.frame][-1:]
        test, decided_in = around[0] if around else self.frame.last_test or (None, None)
        if test is not None and test.origins and not self._is_open_within(decided_in):
            self.record(Failure, node, error, says, (test,))

    def _is_open_within(self, outer: Region | None) -> bool:
        """Whether a branch that nobody can decide stands between a region and the present place."""
        for region in self.region.above():
            if region is outer:
                return False
            if region.kind == "branch":
                return True
        return False

    def _exec_Continue(self, node: ast.Continue) -> bool:
        return self._out_of_loop(node, "continue")

    def _exec_Break(self, node: ast.Break) -> bool:
        return self._out_of_loop(node, "break")

    def _out_of_loop(self, node: ast.stmt, kind: str) -> bool:
        self.record(Leave, node, kind, None)
        if self.frame.loops:
            fork, kinds = self.frame.loops[-1]
            fork.keep()
            kinds.append(kind)
        return False

    def _exec_Assert(self, node: ast.Assert) -> bool:
        value = self.test(node.test)
        truth = self.truth(value)
        if truth is False:
            if (
                isinstance(value, Constant) and not value.origins
            ):  # of ``type(x) is int`` the names still say what it is about
                names = [part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)]
                value = Constant(False, origins_of(*(self.lookup(name) for name in names)))
            self.record(Failure, node, "AssertionError", "", (value,))
            self.record(Leave, node, "raise", value)
            return False
        if isinstance(truth, PerRank):  # only the ranks for which it holds go on
            return self.branch(value, node, lambda: True, lambda: False)
        self.narrow(node.test, sense=True)
        return True

    def _exec_Global(self, node: ast.Global) -> bool:
        self.frame.declared.update(dict.fromkeys(node.names, self.frame.module))
        return True

    def _exec_Nonlocal(self, node: ast.Nonlocal) -> bool:
        for name in node.names:
            owner = self._owner(name)
            self.frame.declared[name] = owner if owner is not None else self.frame.module
        return True

    def _exec_Import(self, node: ast.Import) -> bool:
        for alias in node.names:
            module = self.import_module(alias.name)
            if alias.asname:
                self.bind(alias.asname, module)
            else:
                top = alias.name.partition(".")[0]
                self.bind(top, self.import_module(top) if "." in alias.name else module)
        return True

    def import_module(self, name: str, level: int = 0) -> Value:
        """A module by its name; its packages first, as Python does."""
        importer = self.frame.source.path
        if not level and "." in name:
            self.import_module(name.rpartition(".")[0])
        path = self.modules.find(name, level, importer)
        if path is None:
            self.opaque += name.partition(".")[0] not in _THERE
            return Library(self.libraries.full_name(name)) if not level else Unknown()
        if self._is_late(path):
            return Deferred(path, name or "package")
        found = self.import_file(path, name or "package")
        return found if found is not None else Unknown()

    def _is_late(self, path: str) -> bool:
        """Whether the body of a module can wait until a name of it is asked for; one that registers things cannot."""
        is_small = len(self.loaded) <= _MOST_EAGER and self.modules.lines <= _MOST_EAGER_LINES
        if is_small or path in self.loaded or path.endswith("/"):
            return False
        if len(self.loaded) > _MOST_FOLLOWED or self.steps > _DEAR_IMPORTS:
            self.imports_unseen = True
            return True
        return not (path.endswith("__init__.py") or self.modules.acts(path))

    def force(self, value: Value) -> Value:
        """What a name of a module stands for whose body was not followed yet."""
        if not isinstance(value, Deferred):
            return value
        module = self.import_file(value.path, value.module)
        if module is None or not value.name:
            return module if module is not None else Unknown()
        found = self.store.get(module, value.name)
        if found is None:
            found = self._submodule(module, value.name)
        return self.force(found) if found is not None else Unknown()

    def _exec_ImportFrom(self, node: ast.ImportFrom) -> bool:
        module = self.import_module(node.module or "", node.level)
        if isinstance(module, Deferred):
            takes_all = any(alias.name == "*" for alias in node.names)
            names = self.modules.exports(module.path) if takes_all else ()
            if names is not None:
                for name, own in [(name, name) for name in names] or [
                    (each.asname or each.name, each.name) for each in node.names
                ]:
                    self.bind(name, Deferred(module.path, module.module, own))
                return True
            module = self.force(module)
        for alias in node.names:
            if alias.name == "*":
                for name in self.names.get(module, ()) if isinstance(module, Module) else ():
                    if not name.startswith("_"):
                        self.bind(name, self.store.get(module, name) or Unknown())
                if isinstance(module, Library):
                    self.frame.declared.setdefault("*", module)
                continue
            value: Value | None = None
            if isinstance(module, Module):
                value = self.store.get(module, alias.name)
                if value is None:
                    value = self._submodule(module, alias.name)
            elif isinstance(module, Library):
                value = self.libraries.attribute(self, module, alias.name)
            self.bind(alias.asname or alias.name, value if value is not None else Unknown())
        return True

    def _submodule(self, module: Module, name: str) -> Value | None:
        folder = self.modules.entry if module.source is None else module.source.path
        if module.source is None:
            path = self.store.get(module, "__path__")
            folder = f"{constant_of(path, '')}__init__.py"
        elif not folder.endswith("__init__.py"):
            return None
        path = self.modules.find(name, 1, folder)
        if path is None:
            return None
        return (
            Deferred(path, f"{module.name}.{name}")
            if self._is_late(path)
            else self.import_file(path, f"{module.name}.{name}")
        )

    def _exec_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        function: Value = self.function(node, node.name)
        for decorator in reversed(node.decorator_list):
            function = self.decorate(function, decorator)
        self.bind(node.name, function)
        return True

    _exec_AsyncFunctionDef = _exec_FunctionDef

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> Function:
        """A function with the values of its defaults."""
        arguments = node.args
        defaults: dict[str, Value] = {}
        positional = [*arguments.posonlyargs, *arguments.args]
        for parameter, default in zip(
            positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True
        ):
            defaults[parameter.arg] = self.evaluate(default)
        for parameter, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if given is not None:
                defaults[parameter.arg] = self.evaluate(given)
        in_class = isinstance(self.frame.outer, Class)
        self._capture()
        owner = self.frame.outer if isinstance(self.frame.outer, Class) else None
        closure = self.frame if self.frame.function is not None and not in_class else self._closure()
        return Function(node, self.frame.source, (closure, self.frame.module), defaults, owner, name)

    def _capture(self) -> None:
        frame: Any = self.frame
        while isinstance(frame, Frame):
            frame.is_captured = True
            frame = frame.declared.get("(outer)", frame.outer)

    def _closure(self) -> object:
        """The frame around a class body, whose names its methods see."""
        outer = self.frame
        return outer if outer.function is not None else None

    def decorate(self, function: Value, decorator: ast.expr) -> Value:
        """A function behind a decorator."""
        value = self.evaluate(decorator)
        name = self.libraries.decorator_name(value) or _name_of(value)
        if isinstance(function, Function) and name in {
            "staticmethod",
            "classmethod",
            "property",
            "functools.cached_property",
        }:
            function.kind = "property" if "property" in name else name
            return function
        if (
            isinstance(value, Bound)
            and isinstance(value.function, Library)
            and value.function.name.endswith((".setter", ".getter", ".deleter"))
        ):
            return value.receiver if isinstance(value.receiver, Function) else function
        if isinstance(value, (Function, Bound, Class, Partial, Choice)) and not isinstance(
            getattr(value, "function", None), Library
        ):
            result = self.call(value, [function], {}, decorator)
            return result if isinstance(result, (Function, Bound, Partial, Instance, Class, Result)) else function
        if isinstance(function, (Function, Class)) and name:
            function.decorators = (*function.decorators, name)
        return self.libraries.decorated(self, function, value, name, decorator)  # type: ignore[no-any-return]

    def _exec_ClassDef(self, node: ast.ClassDef) -> bool:
        cls = Class(node, self.frame.source, self._bases(node))
        self.classes.append(cls)
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._methods.setdefault(statement.name, []).append(cls)
        frame = Frame(self.frame.source, self.frame.module, cls, None)
        frame.cls = cls
        frame.declared["(outer)"] = self.frame
        before, self.frame = self.frame, frame
        try:
            self.block(node.body)
        finally:
            self.frame = before
        decorated: Value = cls
        for decorator in reversed(node.decorator_list):
            decorated = self.decorate(decorated, decorator)
        for keyword in node.keywords:
            self.evaluate(keyword.value)
        self.bind(node.name, decorated)
        return True

    def _bases(self, node: ast.ClassDef) -> tuple[Value, ...]:
        """The bases of a class, ``class Both(*PARTS)`` too; of one of several the first that is a class, and ``?`` for an unknown one."""
        bases: list[Value] = []
        for base in node.bases:
            if isinstance(base, ast.Starred):
                items, complete = self.listed(self.evaluate(base.value))
                bases += items if complete else [*items, Unknown()]
            else:
                bases.append(self.evaluate(base.value if isinstance(base, ast.Subscript) else base))
        return tuple(map(_base_of, bases))

    def classes_with(self, method: str) -> list[Class]:
        """The classes of the program that define a method themselves."""
        return self._methods.get(method, [])

    # ---- branches

    def _exec_If(self, node: ast.If) -> bool:
        test = self.test(node.test)
        return self.branch(
            test,
            node,
            lambda: self._arm(node.test, node.body, sense=True),
            lambda: self._arm(node.test, node.orelse, sense=False),
        )

    def _arm(self, test: ast.expr, body: Sequence[ast.stmt], *, sense: bool) -> bool:
        self.narrow(test, sense=sense)
        before, self.frame.refuses = self.frame.refuses, not sense and _only_speaks(body)
        try:
            return self.block(body)
        finally:
            self.frame.refuses = before

    def branch(self, test: Value, node: ast.AST, yes: Callable[[], bool], no: Callable[[], bool]) -> bool:
        """Follow the arm that will be taken, or both; whether control comes behind them."""
        test = self.pick(test)
        truth = self.truth(test)
        if isinstance(truth, bool):
            self.decide(node, test)
            if isinstance(node, ast.If) and _leaves(node.orelse if truth else node.body):
                self.frame.last_test = test, self.region
            self.known_tests.append((self.frame, test, self.region))
            try:
                if truth and isinstance(test, Constant) and test.moduli:
                    every = Unknown(origins=test.origins, kind="divides", moduli=test.moduli)
                    with self.inside("every", node, test=every):
                        return yes()
                return yes() if truth else no()
            finally:
                self.known_tests.pop()
        if not isinstance(test, PerRank):
            test = _merged_test([test]) if isinstance(test, Choice) else test
            return self._arms(node, [_Arm(yes, test), _Arm(no, test, sense=False)])
        first, others = self.truth(test.first), self.truth(test.others)
        if isinstance(first, bool) and isinstance(others, bool):
            if isinstance(node, (ast.If, ast.IfExp)):
                self.rank_tests.add(node.test)
            arms = [
                _Arm(yes if first else no, None, sense=first, side="first"),
                _Arm(yes if others else no, None, sense=others, side="others"),
            ]
            return self._arms(node, arms)
        # One side does not decide: an arm that the other side never takes belongs to it alone.
        sides = {True: _side(first, others, unless=False), False: _side(first, others, unless=True)}
        open_test = test.first if first is None else test.others
        apart = Unknown(tags_of(test) | {"rank"}, origins_of(test))  # where all may come, some ranks may not
        return self._arms(
            node,
            [
                _Arm(yes, open_test if sides[True] else apart, side=sides[True]),
                _Arm(no, open_test if sides[False] else apart, sense=False, side=sides[False]),
            ],
        )

    def _arms(self, node: ast.AST, arms: list[_Arm]) -> bool:
        fork = Fork(self.store)
        is_rank = arms[0].test is None
        falls, leaves = [], []
        for arm in arms:
            count = len(self.trace.leaves)
            with self.inside("rank" if is_rank else "branch", node, test=arm.test, sense=arm.sense, side=arm.side) as region:
                fell = region.completes = arm.follow()
            falls.append(fell)
            leaves.append(any(leave.kind != "raise" for leave in self.trace.leaves[count:]))
            if fell:
                fork.end()
            else:
                fork.rewind()
        if not any(falls):
            return False
        fork.join(per_rank=is_rank and all(falls))
        if not all(falls):
            gone = falls.index(False)
            if is_rank or leaves[gone]:  # what follows happens only where the other arm was taken
                self._go_on_in(node, arms[1 - gone], is_rank=is_rank)
        return True

    def _go_on_in(self, node: ast.AST, arm: _Arm, *, is_rank: bool) -> None:
        """The rest of the function, or of the round of a loop, is where one arm led to."""
        kind = "rank" if is_rank else "branch"
        rest = Region(
            kind, self.region, self.frame.source, node, attach=not self.quiet, test=arm.test, sense=arm.sense, side=arm.side
        )
        self.region = rest

    def narrow(self, test: ast.expr, *, sense: bool) -> None:
        """In an arm, leave out the options of a name that the test excludes."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.narrow(test.operand, sense=not sense)
            return
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == sense:
            for part in test.values:
                self.narrow(part, sense=sense)
            return
        subject = test.left if isinstance(test, ast.Compare) and len(test.ops) == 1 else test
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance" and test.args:
            subject = test.args[0]
        if not isinstance(subject, (ast.Name, ast.Attribute)):
            return
        value = self.evaluate(subject)
        if isinstance(value, Unknown) and (value.bounds is not None or (value.kind == "" and "loop" in value.tags)):
            self._narrow_bounds(test, subject, value, sense=sense)
        if not isinstance(value, Choice):
            return
        kept = [option for option in value.options if self._fits(test, subject, option, sense=sense)]
        if kept and len(kept) < len(value.options):
            narrowed = kept[0] if len(kept) == 1 else Choice(tuple(kept))
            if isinstance(subject, ast.Name):
                self.bind(subject.id, narrowed)
            else:
                owner = self.evaluate(subject.value)
                self.set_attribute(owner, subject.attr, narrowed)

    def _narrow_bounds(self, test: ast.expr, subject: ast.expr, value: Unknown, *, sense: bool) -> None:
        """In an arm, cut the bounds of a name to what the test lets through: ``if size < 1``, ``if not size``."""
        least, greatest = value.bounds or _ANY_COUNT
        if value.bounds is None and not (isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Lt, ast.LtE))):
            return  # of a counter its end alone is told
        if test is subject:
            op: ast.cmpop = ast.NotEq()
            limit: tuple[float, float] | None = (0, 0)
        elif isinstance(test, ast.Compare):
            op, limit = test.ops[0], bounds_of(self.evaluate(test.comparators[0]))
        else:
            return
        if limit is None or limit[0] != limit[1] or not isinstance(subject, ast.Name):
            return
        edge, (is_less, is_equal) = limit[0], _COMPARISONS.get((op.__class__, sense), (None, None))
        if is_equal is False and edge == least and is_less is None:
            least += 1
        elif is_less is True:
            greatest = min(greatest, edge if is_equal else edge - 1)
        elif is_less is False:
            least = max(least, edge if is_equal else edge + 1)
        if (least, greatest) != value.bounds and least <= greatest:
            self.bind(subject.id, Unknown(value.tags, value.origins, kind=value.kind, bounds=(least, greatest)))

    def _fits(self, test: ast.expr, subject: ast.expr, option: Value, *, sense: bool) -> bool:
        if test is subject:
            truth = self.truth(option)
        elif isinstance(test, ast.Call):
            kinds = self.evaluate(test.args[1]) if len(test.args) > 1 else Unknown()
            truth = self.libraries.is_of(self, option, kinds)
        else:
            truth = (
                self.truth(self.compare(test.ops[0], option, self.evaluate(test.comparators[0])))
                if isinstance(test, ast.Compare)
                else None
            )
        return truth is sense or not isinstance(truth, bool)

    def truth(self, value: Value) -> bool | PerRank | None:
        """Whether a value counts as true; None where that is not known."""
        if isinstance(value, Constant):
            return bool(value.value)
        if isinstance(value, PerRank):
            side = self.side
            if side:
                return self.truth(value.first if side == "first" else value.others)
            first, others = self.truth(value.first), self.truth(value.others)
            if isinstance(first, bool) and isinstance(others, bool):
                return first if first is others else PerRank(Constant(first), Constant(others))
            return None
        if isinstance(value, (Function, Class, Module, Library, Partial, Super, Generator)):
            return True
        if isinstance(value, Instance):
            return None if self._find_method(value.cls, "__len__") or self._find_method(value.cls, "__bool__") else True
        if isinstance(value, Bound):
            return True if isinstance(value.function, Function) else None
        if isinstance(value, Container):
            if self.items(value):
                return True
            return None if self.store.get(value, "open") else False
        if isinstance(value, Result):
            return True if value.name in self.libraries.OBJECTS else None
        if isinstance(value, Choice):
            truths = {self.truth(option) if not isinstance(option, PerRank) else None for option in value.options}
            return truths.pop() if len(truths) == 1 else None
        return None

    def _exec_Match(self, node: ast.Match) -> bool:
        subject = self.evaluate(node.subject)
        return self._cases(subject, node, node.cases)

    def _cases(self, subject: Value, node: ast.Match, cases: Sequence[ast.match_case]) -> bool:
        if not cases:
            return True
        case = cases[0]
        test = self._matches(case.pattern, subject)
        if case.guard is not None and self.truth(test) is not False:
            guard = self.evaluate(case.guard)
            test = guard if self.truth(test) is True else unknown_from(test, guard)
        return self.branch(test, node, lambda: self.block(case.body), lambda: self._cases(subject, node, cases[1:]))

    def _matches(self, pattern: ast.pattern, subject: Value) -> Value:
        if isinstance(pattern, ast.MatchValue):
            return self.compare(ast.Eq(), subject, self.evaluate(pattern.value))
        if isinstance(pattern, ast.MatchSingleton):
            return self.compare(ast.Is(), subject, Constant(pattern.value))
        if isinstance(pattern, ast.MatchOr):
            results = [self._matches(each, subject) for each in pattern.patterns]
            truths = [self.truth(each) for each in results]
            return TRUE if True in truths else FALSE if all(truth is False for truth in truths) else unknown_from(*results)
        if isinstance(pattern, ast.MatchAs):
            inner = TRUE if pattern.pattern is None else self._matches(pattern.pattern, subject)
            if pattern.name:
                self.bind(pattern.name, subject)
            return inner
        for part in ast.walk(pattern):
            if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
                self.bind(part.name, unknown_from(subject))
        return Unknown()

    # ---- loops

    def _exec_For(self, node: ast.For | ast.AsyncFor) -> bool:
        iterable = self.evaluate(node.iter)
        if isinstance(iterable, Generator):
            return self._for_generator(node, iterable)
        items = self.unrolled(iterable, node)
        if items is not None:
            return self._unroll(node, iterable, items, node.orelse)
        if (known := self._known_keys(iterable)) and not self._unroll(node, iterable, known, []):
            return False

        def element() -> None:
            item = self.element(iterable, node)
            self.assign(node.target, item, node)
            if self.region.parent is not None:  # around the part that feeds it
                self.region.parent.value = item

        self.loop(node, node.body, element, iterable)
        return self.block(node.orelse) if node.orelse else True

    _exec_AsyncFor = _exec_For

    def _for_generator(self, node: ast.For | ast.AsyncFor, generator: Generator) -> bool:
        frame, is_certain = self.frame, self.region.certain
        fork = Fork(self.store)

        def begin() -> None:
            if self.region.parent is not None:  # a round comes to be, whatever the generator asks before it yields
                self.region.parent.certain = is_certain

        def body(value: Value) -> Value:
            inner, self.frame = self.frame, frame
            try:
                self.assign(node.target, value, node)
                self.loop(node, node.body, begin, generator)
            finally:
                self.frame = inner
            return Unknown()

        generator.run(body)
        fork.ends.append(self.store.changes(fork.mark))
        fork.join()
        return self.block(node.orelse) if node.orelse else True

    def _exec_While(self, node: ast.While) -> bool:
        test = self.test(node.test)
        if self.truth(test) is False:
            return self.block(node.orelse) if node.orelse else True

        def again() -> None:
            self.narrow(node.test, sense=True)

        leaves = self.loop(node, node.body, again, None, node.test, test)
        if isinstance(node.test, ast.Constant) and node.test.value and "break" not in leaves:
            return False
        self.evaluate(node.test)
        return self.block(node.orelse) if node.orelse else True

    def unrolled(self, iterable: Value, node: ast.AST | None = None) -> list[Value] | None:
        """The items of a short known list or range; None where they are many or not known."""
        if isinstance(iterable, Container) and not self.store.get(iterable, "open"):
            items = self.items(iterable)
            values = [Constant(key) for key in items] if isinstance(items, dict) else list(items)
            return (
                values
                if len(values) <= _MOST_UNROLLED
                or (node is not None and len(values) <= _MOST_PLAIN and _is_short(node, len(values)))
                else None
            )
        if isinstance(iterable, Constant) and isinstance(iterable.value, str) and len(iterable.value) <= _MOST_UNROLLED:
            return [Constant(letter) for letter in iterable.value]
        return self.libraries.items_of(self, iterable)  # type: ignore[no-any-return]

    def _known_keys(self, iterable: Value) -> list[Value]:
        """The keys that are known of a dictionary which may have more: each is gone through before what is not known."""
        if not isinstance(iterable, Container) or iterable.kind not in _KEYED or not self.store.get(iterable, "open"):
            return []
        keys = list(self.items(iterable))
        return [Constant(key) for key in keys] if len(keys) <= _MOST_UNROLLED else []

    def _unroll(self, node: ast.For | ast.AsyncFor, iterable: Value, items: list[Value], orelse: list[ast.stmt]) -> bool:
        for item in items:
            fork, kinds = Fork(self.store), list[str]()
            self.frame.loops.append((fork, kinds))
            with self.inside("loop", node, iterable=iterable, value=item):
                self.assign(node.target, item, node)
                falls = self.block(node.body)
            self.frame.loops.pop()
            if falls:
                fork.end()
            if not fork.ends:
                fork.rewind()
                return False
            fork.join()
            if "break" in kinds and not falls and "continue" not in kinds:
                return True
        return self.block(orelse) if orelse else True

    def loop(
        self,
        node: ast.AST,
        body: Sequence[ast.stmt],
        begin: Callable[[], None],
        iterable: Value | None,
        test: ast.expr | None = None,
        first: Value | None = None,
    ) -> list[str]:
        """Follow a loop whose rounds are many: quietly first, to learn what changes; the ways in which the body leaves it."""
        if not self.quiet:
            begun = self.steps
            self._widen_by_round(node, body, begin, iterable)
            if self.steps - begun < _CHEAP_ROUND:  # what changes only in a later round, as a counter of every 16th step does
                self._widen_by_round(node, body, begin, iterable)
        else:
            self._widen_names(body)
        value = self.test(test) if test is not None else None
        if isinstance(first, LengthTest):  # of ``while start + chunk <= n`` the first round tells how long n must be
            value = first
        return self._round(node, body, begin, iterable, value)

    def _widen_by_round(
        self, node: ast.AST, body: Sequence[ast.stmt], begin: Callable[[], None], iterable: Value | None
    ) -> None:
        """Follow one round quietly and undo it: what it changed is not known in any round."""
        mark = len(self.store.log)
        self.quiet += 1
        self._round(node, body, begin, iterable, None)
        self.quiet -= 1
        known, changed = self.store.before(mark), self.store.changes(mark)
        self.store.undo(mark)
        self._widen(changed, known)

    def _round(
        self, node: ast.AST, body: Sequence[ast.stmt], begin: Callable[[], None], iterable: Value | None, test: Value | None
    ) -> list[str]:
        fork, kinds = Fork(self.store), list[str]()
        fork.keep()  # no round at all
        self.frame.loops.append((fork, kinds))
        try:
            with self.inside("loop", node, iterable=iterable, test=test):
                with self.inside("feed", node):
                    begin()
                falls = self.block(body)
        finally:
            self.frame.loops.pop()
        if falls:
            fork.end()
        else:
            fork.rewind()
        fork.join()
        return kinds

    def _widen(self, changed: dict[Any, Any], known: dict[Any, Any]) -> None:
        """What changes from round to round is not known in any of them."""
        for key, after in changed.items():
            if key not in known:
                continue
            before = self.store.cells.get(key)
            if isinstance(before, Value):
                if isinstance(after, Value) and before is not after:
                    self.store.write(key, _widened(before, after))
            elif isinstance(before, (tuple, dict)) and before != after:
                self.store.write((key[0], "open"), True)
                if isinstance(before, dict) and isinstance(after, dict):
                    merged = {
                        name: _widened(before[name], value) if name in before else value for name, value in after.items()
                    }
                    self.store.write(key, {**before, **merged})
                elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
                    self.store.write(key, tuple(map(_widened, before, after)))
            elif key[1] == "open":
                self.store.write(key, after or before)

    def _widen_names(self, body: Sequence[ast.stmt]) -> None:
        """The names that a body binds and that were bound before it."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    before = self.store.get(self.frame, node.id)
                    if isinstance(before, Constant):
                        self.store.set(self.frame, node.id, Unknown(frozenset({"loop"}), before.origins))

    def element(self, iterable: Value, node: ast.AST) -> Value:
        """What a loop over something gets in a round."""
        if isinstance(iterable, Container):
            items = self.items(iterable)
            values = [Constant(key) for key in items] if isinstance(items, dict) else list(items)
            if not values:
                return unknown_from(iterable)
            result = values[0]
            for value in values[1:]:
                result = join(result, value)
            return join(result, unknown_from(iterable)) if self.store.get(iterable, "open") else result
        if isinstance(iterable, Choice):
            result = self.element(iterable.options[0], node)
            for option in iterable.options[1:]:
                result = join(result, self.element(option, node))
            return result
        if isinstance(iterable, Instance):
            return self._element_of_instance(iterable, node)
        if isinstance(iterable, PerRank):
            return self.element(iterable.first, node)
        return self.libraries.element(self, iterable, node)  # type: ignore[no-any-return]

    def _element_of_instance(self, iterable: Instance, node: ast.AST) -> Value:
        loader = self.store.get(iterable, "(loader)")
        if isinstance(loader, Value):
            return self.libraries.element(self, loader, node)  # type: ignore[no-any-return]
        iterator = self.call_method(iterable, "__iter__", [], {}, node)
        if isinstance(iterator, Generator):
            found = iterator.collect()
            return found[0] if len(found) == 1 else unknown_from(*found)
        if isinstance(iterator, Instance) and self._find_method(iterator.cls, "__next__") is not None:
            result = self.call_method(iterator, "__next__", [], {}, node)
            return result if result is not None else Unknown()
        if iterator is not None and iterator is not iterable and not isinstance(iterator, Unknown):
            return self.element(iterator, node)
        if iterator is None and self._find_method(iterable.cls, "__getitem__") is not None:
            return self.call_method(iterable, "__getitem__", [Unknown(frozenset({"loop"}))], {}, node) or Unknown()
        return unknown_from(iterable, add=("data",))

    # ---- with, try

    def _exec_With(self, node: ast.With | ast.AsyncWith) -> bool:
        return self._with(node, list(node.items))

    _exec_AsyncWith = _exec_With

    def _with(self, node: ast.With | ast.AsyncWith, items: list[ast.withitem]) -> bool:
        if not items:
            return self.block(node.body)
        item = items[0]
        manager = self.evaluate(item.context_expr)
        if isinstance(manager, Generator):
            return self._with_generator(node, items, manager)
        entered: Value = manager
        if isinstance(manager, Instance):
            result = self.call_method(manager, "__enter__", [], {}, item.context_expr)
            entered = result if result is not None else manager
        with self.inside("with", node, value=manager) as region:
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered, node)
            falls = self._with(node, items[1:])
            region.completes = falls
        if isinstance(manager, Instance):
            self.call_method(manager, "__exit__", [NONE, NONE, NONE], {}, item.context_expr)
        elif isinstance(manager, Result):
            self.libraries.left(self, manager, item.context_expr)
        return falls

    def _with_generator(self, node: ast.With | ast.AsyncWith, items: list[ast.withitem], manager: Generator) -> bool:
        """The body of a ``with`` over a generator runs where the generator yields."""
        frame = self.frame
        falls: list[bool] = []

        def body(value: Value) -> Value:
            inner, self.frame = self.frame, frame
            try:
                with self.inside("with", node, value=manager):
                    if items[0].optional_vars is not None:
                        self.assign(items[0].optional_vars, value, node)
                    falls.append(self._with(node, items[1:]))
            finally:
                self.frame = inner
            return NONE

        manager.run(body)
        if not falls:
            return self._with(node, items[1:])
        return any(falls)

    def _exec_Try(self, node: ast.Try) -> bool:
        fork = Fork(self.store)
        failed, opaque, endless, leaves = self.failed, self.opaque, self.endless, len(self.trace.leaves)
        with self.inside("try", node) as region:
            self.frame.guards += bool(node.handlers)
            falls = region.completes = self.block(node.body)
            self.frame.guards -= bool(node.handlers)
            before, failed = failed, self.failed - failed
            opaque, endless = self.opaque - opaque, self.endless - endless
            self.failed = before if node.handlers else self.failed
            if falls and node.orelse:
                falls = self.block(node.orelse)
        kinds = {leave.kind for leave in self.trace.leaves[leaves:]}
        raises = bool(failed or endless) or "raise" in kinds or not (region.completes or kinds)
        changed, known = self.store.changes(fork.mark), self.store.before(fork.mark)
        if falls and not (failed and node.handlers):
            fork.end()
        else:
            fork.rewind()
            if not node.handlers and failed:
                self._forget_changes(changed, known)
        ways = [falls and not (failed and node.handlers)]
        for handler in node.handlers if raises or opaque else ():
            with self.inside("handler", handler):
                if failed or endless:
                    self._forget_changes(changed, known)
                if handler.type is not None:
                    self.evaluate(handler.type)
                if handler.name:
                    self.bind(handler.name, Unknown(kind="exception"))
                handled = self.block(handler.body)
            ways.append(handled)
            if handled:
                fork.end()
            else:
                fork.rewind()
        if fork.ends:
            fork.join()
        if node.finalbody:
            with self.inside("final", node):
                if not self.block(node.finalbody):
                    return False
        return any(ways)

    _exec_TryStar = _exec_Try

    def _forget_changes(self, changed: dict[Any, Any], known: dict[Any, Any]) -> None:
        """What a block had set before it failed is not known."""
        for key in changed.keys() & known.keys():
            values = changed[key], known[key]
            if all(isinstance(value, Value) for value in values) and any(isinstance(value, Constant) for value in values):
                self.store.write(key, unknown_from(known[key], changed[key]))

    # ---- assignment

    def bind(self, name: str, value: Value) -> None:
        """Give a name of the present scope a value."""
        frame = self.frame
        owner = frame.declared.get(name)
        if owner is not None:
            if isinstance(owner, Module):
                self.bind_global(owner, name, value)
            else:
                self.store.set(owner, name, value)
        elif frame.cls is not None and frame.outer is frame.cls:
            self.store.set(frame.cls, name, value)
        elif frame.function is None and frame.outer is None:
            self.bind_global(frame.module, name, value)
        else:
            frame.bound[name] = None
            self.store.set(frame, name, value)

    def assign(self, target: ast.expr, value: Value, node: ast.AST, before: Value | None = None) -> None:
        """Give a target of an assignment a value."""
        if isinstance(target, ast.Name):
            in_round = bool(self.frame.loops) and not self.quiet  # what a round of a loop begins with is not carried over
            if in_round and before is None:
                before = self.store.get(self.frame, target.id)
            if (in_round or before is not None) and before is not value:
                self.record(Write, node, None, target.id, value, before)
            at_top = self.frame.function is None and self.frame.outer is None and self.frame.cls is None
            self.bind(target.id, self._setting(target.id, value) if at_top else value)
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value)
            self.record(
                Write, node, owner, target.attr, value, before if before is not None else self.peek(owner, target.attr)
            )
            is_config = isinstance(owner, Container) and owner.kind == "config"
            self.set_attribute(owner, target.attr, self._setting(target.attr, value) if is_config else value)
        elif isinstance(target, ast.Subscript):
            owner, key = self.evaluate(target.value), self.evaluate(target.slice)
            self.record(Write, node, owner, key, value, before)
            self.set_item(owner, key, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, node)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, node)

    def _setting(self, name: str, value: Value) -> Value:
        """A number that is written under a name of a module or a config is a setting in the code, with its place."""
        plain = constant_of(value)
        if not isinstance(value, Constant) or value.origins or value.node is None or value.source is None:
            return value
        if type(plain) not in {int, float}:
            return value
        evidence, span = value.source.evidence(value.node), value.source.span(value.node)
        fact = Fact(canonical(name) or f"code.{name}", plain, evidence, "code", name, span)
        return Constant(plain, (fact,), direct=True, source=value.source, node=value.node)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, node: ast.AST) -> None:
        parts = self._parts(target, value, node)
        if parts is None:
            count = len(target.elts)
            parts = self.libraries.parts_of(self, value, count) or [unknown_from(value) for _ in range(count)]
        for each, part in zip(target.elts, parts, strict=True):
            self.assign(each, part, node)

    def _parts(self, target: ast.Tuple | ast.List, value: Value, node: ast.AST) -> list[Value] | None:
        """What each of several names gets of a known value; of one of several values each gets one of several parts."""
        if isinstance(value, Choice):
            rows = [self._parts(target, option, node) for option in value.options if isinstance(option, Container)]
            known = [row for row in rows if row is not None]
            if known and any(isinstance(option, Unknown) and option.kind == "several" for option in value.options):
                known.append([unknown_from(value) for _ in known[0]])
            return [_joined(list(column)) for column in zip(*known, strict=True)] if known else None
        if isinstance(value, PerRank):
            first, others = self._parts(target, value.first, node), self._parts(target, value.others, node)
            return None if first is None or others is None else [PerRank(*each) for each in zip(first, others, strict=True)]
        if not isinstance(value, Container) or value.kind == "dict" or self.store.get(value, "open"):
            return None
        content = self.items(value)
        if isinstance(content, dict):  # a tuple with names, else the keys
            items = list(content.values()) if value.kind == "namespace" else [Constant(key) for key in content]
        else:
            items = list(content)
        count = len(target.elts)
        star = next((number for number, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
        if star is None:
            return items if len(items) == count else None
        if len(items) < count - 1:
            return None
        behind = count - star - 1
        middle = self.container("list", items[star : len(items) - behind], node)
        return [*items[:star], middle, *items[len(items) - behind :]]

    def set_attribute(self, owner: Value, name: str, value: Value) -> None:
        """Set an attribute of an object."""
        if isinstance(owner, Choice):
            for option in owner.options:
                before = self.peek(option, name)
                self.set_attribute(option, name, join(before, value) if before is not None else value)
        elif isinstance(owner, PerRank):
            self.set_attribute(owner.first, name, value)
        elif isinstance(owner, Container):
            if owner.kind in {"namespace", "config", "dict"}:
                self.set_item(owner, Constant(name), value, None)
        elif isinstance(owner, Module):
            self.bind_global(owner, name, value)
        elif isinstance(owner, Instance):
            setter = self._find(owner.cls, f"{name}.setter")
            mapping = self.libraries.mapping(self, owner) if self._find(owner.cls, "__setattr__") is not None else None
            if isinstance(setter, Function):
                self.call(Bound(setter, owner), [value], {}, setter.node)
            elif mapping is not None:
                self.set_item(mapping, Constant(name), value, None)
            else:
                self.store.set(owner, name, value)
        elif isinstance(owner, (Class, Result, Function)):
            self.store.set(owner, name, value)

    def peek(self, owner: Value, name: str) -> Value | None:
        """The value of an attribute that was set, without following anything."""
        found = self.store.get(owner, name) if isinstance(owner, (Instance, Result, Class, Module, Function)) else None
        return found if isinstance(found, Value) else None

    def items(self, container: Value) -> Any:  # noqa: ANN401 - a tuple or a dict of values
        """The content of a container: a tuple, or a dict by plain keys."""
        return self.store.get(
            container, "items", {} if isinstance(container, Container) and container.kind in _KEYED else ()
        )

    def entries(self, value: Value | None) -> dict[Any, Value]:
        """What a dictionary, namespace or config holds by plain keys; anything else holds nothing that way."""
        content = self.items(value) if isinstance(value, Container) else None
        return content if isinstance(content, dict) else {}

    def container(self, kind: str, items: Any, node: ast.AST | None = None, *, is_open: bool = False) -> Container:  # noqa: ANN401 - a list or a dict of values
        """A new list, tuple, set, dict, namespace or config."""
        made = Container(kind, (), self.frame.source, node if isinstance(node, ast.expr) else None)
        self.trace.number += 1
        made.number = self.trace.number
        self.store.set(made, "items", dict(items) if kind in _KEYED else tuple(items)[:_MOST_ITEMS])
        if is_open:
            self.store.set(made, "open", True)
        return made

    def set_item(self, owner: Value, key: Value, value: Value, node: ast.AST | None) -> None:
        """``owner[key] = value``."""
        if isinstance(owner, Choice):
            for option in owner.options:
                self.set_item(option, key, value, node)
            return
        if isinstance(owner, Instance):
            mapping = self.libraries.mapping(self, owner)
            if mapping is not None:
                self.set_item(mapping, key, value, node)
            elif node is not None:
                self.call_method(owner, "__setitem__", [key, value], {}, node)
            return
        if not isinstance(owner, Container):
            if isinstance(owner, (Result, Library)) and isinstance(key, Constant) and _hashable(key.value):
                self.store.set(owner.name if isinstance(owner, Library) else owner, ("item", key.value), value)
            return
        plain = constant_of(key, self)
        content = self.items(owner)
        if owner.kind in _KEYED:
            if plain is self or not _hashable(plain):
                self.libraries.open_up(self, owner)
                known = self.store.get(owner, "others")
                self.store.set(owner, "others", join(known, value) if isinstance(known, Value) else value)
            elif len(content) < _MOST_ITEMS:
                self.store.set(owner, "items", {**content, plain: value})
                view = self.store.get(owner, "view")
                if isinstance(view, Value) and isinstance(plain, str):
                    self.set_attribute(view, plain, value)
        elif isinstance(plain, int) and -len(content) <= plain < len(content):
            changed = list(content)
            changed[plain] = value
            self.store.set(owner, "items", tuple(changed))
        else:
            self.libraries.open_up(self, owner)

    # ---- expressions

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression."""
        self.work += 1
        if self.work > _WORK_BETWEEN_LOOKS or self.store.written > _ITEMS_BETWEEN_LOOKS:
            self._look()
        handler = self._expressions.get(node.__class__)
        return handler(node) if handler is not None else Unknown()

    def _eval_Constant(self, node: ast.Constant) -> Value:
        return Constant(node.value, source=self.frame.source, node=node)

    def _eval_Name(self, node: ast.Name) -> Value:
        return self.lookup(node.id)

    def lookup(self, name: str) -> Value:
        """What a name stands for here."""
        cells = self.store.cells
        frame: Any = self.frame
        if frame.cls is not None and frame.outer is frame.cls:
            found = cells.get((frame.cls, name))
            if found is not None:
                return self.pick(found)
            frame = frame.declared.get("(outer)", frame)
        while isinstance(frame, Frame):
            owner = frame.declared.get(name)
            found = cells.get((owner if owner is not None else frame, name))
            if found is not None:
                return self.pick(found)
            frame = frame.outer
        module = self.frame.module
        found = cells.get((module, name))
        if found is not None:
            return self.pick(found)
        return self.libraries.builtin(name)  # type: ignore[no-any-return]

    def pick(self, value: Value) -> Value:
        """On one side of the ranks a value that differs between them is the one of that side."""
        if value.__class__ is Deferred:
            return self.force(value)
        if value.__class__ is PerRank:
            side = self.side
            if side:
                return value.first if side == "first" else value.others
        return value

    def _owner(self, name: str) -> object | None:
        frame: Any = self.frame.outer
        while isinstance(frame, Frame):
            if (frame, name) in self.store.cells:
                return frame
            frame = frame.outer
        return None

    def _eval_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.assign(node.target, value, node)
        return value

    def _eval_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.evaluate(node.value), node.attr, node)

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """An attribute of a value."""
        if isinstance(owner, Deferred):
            owner = self.force(owner)
        if isinstance(owner, Instance):
            return self.pick(self._attribute_of_instance(owner, name, node))
        if isinstance(owner, Module):
            found = self.store.get(owner, name)
            if found is None and name == "__dict__":
                return self._attributes_as_dict(owner)
            if found is None:
                found = self._submodule(owner, name)
            return self.force(found) if found is not None else Unknown()
        if isinstance(owner, Library):
            return self.libraries.attribute(self, owner, name)  # type: ignore[no-any-return]
        if isinstance(owner, Container):
            return self._attribute_of_container(owner, name, node)
        if isinstance(owner, Class):
            return self._attribute_of_class(owner, name)
        if isinstance(owner, Super):
            return self._attribute_of_super(owner, name, node)
        if isinstance(owner, PerRank):
            owner = self.pick(owner)
            if isinstance(owner, PerRank):
                return PerRank(self.attribute(owner.first, name, node), self.attribute(owner.others, name, node))
            return self.attribute(owner, name, node)
        if isinstance(owner, Choice):
            known = [option for option in owner.options if not (isinstance(option, Constant) and option.value is None)]
            result: Value | None = None
            for option in known:
                with self.inside("option", node):  # it may be another
                    value = self.attribute(option, name, node)
                result = value if result is None else join(result, value)
            return result if result is not None else Unknown()
        if isinstance(owner, (Result, Function)):
            found = self.store.get(owner, name)
            if isinstance(found, Value):
                return self.pick(found)
        if name in _SMALL and owner.tags and isinstance(owner, (Result, Unknown, Bound)):
            made = Unknown(small_tags(owner.tags) - {"graph", "tensor"}, owner.origins)
            if name == "shape":
                made.kind, made.bound = "shape", owner
            return made
        if name == "data" and "graph" in owner.tags and isinstance(owner, (Result, Unknown, Bound)):
            return Unknown(owner.tags - _GRAPH, owner.origins)
        if isinstance(owner, (Result, Function)):
            return self.libraries.attribute(self, owner, name)  # type: ignore[no-any-return]
        if isinstance(owner, Constant):
            kind = type(owner.value)
            if owner.direct and owner.value is not None and not hasattr(kind, name):
                return self.fail(node, "AttributeError", f"a value of the type {kind.__name__} has no {name}", owner)
            return Bound(Library(f"{kind.__name__}.{name}"), owner)
        if isinstance(owner, Bound) and isinstance(owner.function, Library):
            return Bound(Library(f"{owner.function.name}.{name}"), owner.receiver)
        return Bound(Library(f"?.{name}"), owner)

    def _attribute_of_instance(self, owner: Instance, name: str, node: ast.AST) -> Value:
        found = self.store.get(owner, name)
        if isinstance(found, Value):
            return found
        found = self._find(owner.cls, name)
        if isinstance(found, Function):
            if found.kind == "property":
                return self.call(Bound(found, owner), [], {}, node)
            if found.kind == "staticmethod":
                return found
            return Bound(found, owner.cls if found.kind == "classmethod" else owner)
        if found is not None:
            return found
        bases = owner.cls.library_bases()
        if name == "__class__":
            return owner.cls
        if name == "__dict__":
            return self._attributes_as_dict(owner)
        known = self.libraries.inherited(self, owner, bases, name)
        if known is not None:
            return known  # type: ignore[no-any-return]
        mapping = self.libraries.mapping(self, owner)
        getter = self._find(owner.cls, "__getattr__") if not name.startswith("__") else None
        if mapping is not None:
            is_lacking = name not in self.items(mapping) and not self.store.get(mapping, "open")
            if is_lacking and isinstance(getter, Function) and name not in self.libraries.CONFIG_METHODS:
                return self._got(getter, owner, mapping, name, node)
            found = self._attribute_of_container(mapping, name)
            return found if not isinstance(found, Unknown) else Bound(Library(f"dict.{name}"), mapping)
        base = next((base for base in bases if base != "object" or name.startswith("__")), "")
        if base:
            return Bound(Library(f"{base}.{name}"), owner)
        if isinstance(getter, Function):
            return self.call(Bound(getter, owner), [Constant(name)], {}, node)
        self.opaque += 1  # it may not be there yet
        return Bound(Library(f"?.{name}"), owner) if not name.startswith("__") else Unknown()

    def _got(self, getter: Function, owner: Instance, mapping: Container, name: str, node: ast.AST) -> Value:
        """What the class of a dictionary gives for a name that is no key of it, or that it raises then."""
        result = self.call(Bound(getter, owner), [Constant(name)], {}, node)
        if isinstance(result, Result) and result.name == "never":
            return self.fail(node, "AttributeError", name, mapping, Constant(name))
        return result

    def _attributes_as_dict(self, owner: Value) -> Container:
        """The attributes of an object or of a namespace: what is written into the dictionary is written into that."""
        is_open = isinstance(owner, Module) and not self.libraries.all_names(self, owner)
        if isinstance(owner, Container):
            pairs, is_open = dict(self.items(owner)), bool(self.store.get(owner, "open"))
        else:
            pairs = {
                name: value for name in self.store.names(owner) if isinstance(value := self.store.get(owner, name), Value)
            }
        made = self.container("dict", pairs, is_open=is_open)
        self.store.set(made, "view", owner)
        return made

    def _attribute_of_container(self, owner: Container, name: str, node: ast.AST | None = None) -> Value:
        if owner.kind in {"namespace", "config"}:
            items = self.items(owner)
            if name in items:
                return self._there(items[name], name, node)
            if name == "__dict__":
                return self._attributes_as_dict(owner)
            if name not in self.libraries.CONFIG_METHODS:
                is_whole = not self.store.get(owner, "open") and not self.store.get(owner, "makes attributes")
                is_method = node is self.called
                if is_method:  # one of the config that we do not know: it may change it
                    self.libraries.open_up(self, owner)
                if node is not None and is_whole and not is_method and not name.startswith("_"):
                    self.fail(node, "AttributeError", name, owner, Constant(name))
                return (
                    Unknown(origins=owner.origins, kind=f"missing:{name}")
                    if self.store.get(owner, "open") or owner.kind == "config"
                    else Bound(Library(f"{owner.kind}.{name}"), owner)
                )
        return Bound(Library(f"{'dict' if owner.kind == 'config' else owner.kind}.{name}"), owner)

    def _there(self, value: Value, name: str, node: ast.AST | None) -> Value:
        """A value of a config as it is read: Python raises where nobody said it, ``data_dir: ???``."""
        if node is not None and isinstance(value, Unknown) and value.kind == "missing":
            return self.fail(node, "MissingMandatoryValue", f"Missing mandatory value: {name}", value)
        return self.pick(value)

    def _attribute_of_class(self, owner: Class, name: str) -> Value:
        found = self._find(owner, name)
        if isinstance(found, Function) and found.kind == "classmethod":
            return Bound(found, owner)
        if found is not None:
            return self.libraries.member(self, owner, name, found)  # type: ignore[no-any-return]
        if name == "__name__":
            return Constant(owner.name)
        bases = owner.library_bases()
        return Bound(Library(f"{bases[0]}.{name}"), owner) if bases else Unknown()

    def _attribute_of_super(self, owner: Super, name: str, node: ast.AST) -> Value:
        if name == "__dict__" and isinstance(owner.receiver, Instance):
            return self._attributes_as_dict(owner.receiver)
        lineage = owner.receiver.cls.lineage() if isinstance(owner.receiver, Instance) else owner.cls.lineage()
        behind = lineage[lineage.index(owner.cls) + 1 :] if owner.cls in lineage else owner.cls.lineage()[1:]
        for base in behind:
            if isinstance(base, Class):
                found = self.store.get(base, name)
                if isinstance(found, Function) and found.kind == "property":
                    return self.call(Bound(found, owner.receiver), [], {}, node)
                if isinstance(found, Function):
                    return found if found.kind == "staticmethod" else Bound(found, owner.receiver)
                if isinstance(found, Value):
                    return found
            elif isinstance(base, Library):
                return Bound(Library(f"{base.name}.{name}"), owner.receiver)
        return Bound(Library(f"object.{name}"), owner.receiver)

    def _find(self, cls: Class, name: str) -> Value | None:
        """An attribute of a class or of its bases of the program."""
        for each in cls.lineage():
            if isinstance(each, Class):
                found = self.store.get(each, name)
                if isinstance(found, Value):
                    return found
        return None

    def _find_method(self, cls: Class, name: str) -> Function | None:
        found = self._find(cls, name)
        return found if isinstance(found, Function) else None

    def call_method(
        self, owner: Value, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value | None:
        """Call a method that the program defines; None where it does not."""
        if not isinstance(owner, Instance):
            return None
        method = self._find_method(owner.cls, name)
        if method is None:
            return None
        receiver = [] if method.kind == "staticmethod" else [owner]
        return self.call_function(method, [*receiver, *arguments], keywords, node)

    def _eval_Subscript(self, node: ast.Subscript) -> Value:
        owner, key = self.evaluate(node.value), self.evaluate(node.slice)
        if isinstance(node.slice, ast.Slice) and not isinstance(owner, Constant):
            self._note_slice(owner, key, node)
        found = self.item(owner, key, node)
        if constant_of(key) == 0 and isinstance(owner, Unknown) and owner.kind == "shape" and owner.bound is not None:
            if isinstance(found, Unknown) and found.bounds is None:
                found = Length(owner.bound, found.tags, found)
            return self.count(found, owner.bound)
        return found

    def _note_slice(self, owner: Value, key: Value, node: ast.AST) -> None:
        plain = constant_of(key)
        if isinstance(plain, slice):
            self.record(Slice, node, owner, Constant(plain.start), Constant(plain.stop))
        elif isinstance(key, Result) and isinstance(key.data, list):
            self.record(Slice, node, owner, key.data[0], key.data[1])

    def _eval_Slice(self, node: ast.Slice) -> Value:
        parts = [self.evaluate(part) if part is not None else NONE for part in (node.lower, node.upper, node.step)]
        if all(isinstance(part, Constant) and (part.value is None or type(part.value) is int) for part in parts):
            step = constant_of(parts[2])
            if step != 0:
                made = Constant(slice(*(constant_of(part) for part in parts)), origins_of(*parts))
                if isinstance(parts[1], Constant):
                    made.source, made.node = parts[1].source, parts[1].node
                return made
        return Result("slice", None, tags_of(*parts), origins_of(*parts), data=parts)

    def item(self, owner: Value, key: Value, node: ast.AST) -> Value:
        """``owner[key]``."""
        if not (isinstance(owner, Container) and isinstance(key, Constant)):
            self.opaque += 1
        if isinstance(owner, PerRank):
            owner = self.pick(owner)
        pairs: list[tuple[Value, Value]] = []
        if isinstance(owner, Choice):
            pairs = [(option, key) for option in owner.options]
        elif isinstance(key, Choice) and isinstance(owner, (Container, Constant)):
            pairs = [(owner, option) for option in key.options]
        if pairs:
            failed, found = self.failed, list[Value]()
            for each, wanted in pairs:
                with self.inside("option", node):  # it may be another
                    found.append(self.item(each, wanted, node))
            self.failed = failed
            return _joined(found)
        plain = constant_of(key, self)
        if isinstance(owner, Container):
            return self.pick(self._item_of_container(owner, plain, key, node))
        if isinstance(owner, Constant) and plain is not self and isinstance(owner.value, (str, bytes)):
            try:
                return Constant(owner.value[plain], origins_of(owner, key))
            except RAISED:
                return unknown_from(owner, key)
        if isinstance(owner, Instance):
            result = self.call_method(owner, "__getitem__", [self._own_key(key)], {}, node)
            if result is not None:
                return result
            mapping = self.libraries.mapping(self, owner)
            if mapping is not None:
                is_there = plain is not self and _hashable(plain) and plain in self.items(mapping)
                other = None if is_there else self.call_method(owner, "__missing__", [self._own_key(key)], {}, node)
                if other is not None:
                    is_open = plain is self or self.store.get(mapping, "open")
                    return join(other, unknown_from(mapping, key)) if is_open else other
                return self.pick(self._item_of_container(mapping, plain, key, node))
        if isinstance(owner, Result) and plain is not self and _hashable(plain):
            found = self.store.get(owner, ("item", plain))
            if isinstance(found, Value):
                return found
        return self.libraries.item(self, owner, key, node)  # type: ignore[no-any-return]

    def _own_key(self, key: Value) -> Value:
        """A key as a method of the program gets it, with no slice in it that would be looked up later."""
        if isinstance(key, Container) and key.kind == "tuple":
            return self.container("tuple", [hashable(part) for part in self.items(key)])
        return hashable(key)

    def _item_of_container(self, owner: Container, plain: Any, key: Value, node: ast.AST) -> Value:  # noqa: ANN401 - a constant
        content = self.items(owner)
        is_open = bool(self.store.get(owner, "open"))
        if owner.kind in _KEYED:
            if isinstance(key, Result) and key.name == "text" and not is_open:
                content = self.fitting(content, key) or content
            if plain is not self and _hashable(plain):
                if plain in content:
                    return self._there(content[plain], str(plain), node)
                if not is_open:
                    factory = self.store.get(owner, "factory")
                    if isinstance(factory, Value):
                        made = self.call(factory, [], {}, node)
                        self.set_item(owner, key, made, node)
                        return made
                    is_written = isinstance(owner.node, ast.Dict) and bool(
                        owner.node.keys
                    )  # and not filled by what registers
                    if is_written or not self.imports_unseen:
                        self.fail(node, "KeyError", repr(plain), owner, key)
                others = self.store.get(owner, "others")
                return others if isinstance(others, Value) else unknown_from(owner, key)
            if isinstance(self.store.get(owner, "factory"), Value):
                self.libraries.open_up(self, owner)  # it makes the key that it is asked for, whichever that is
            values = list(content.values())
            others = self.store.get(owner, "others")
            if isinstance(others, Value):
                values.append(others)
                is_open = False
        else:
            if isinstance(plain, slice):
                try:
                    is_empty = not plain.start and plain.stop == 0
                    made = self.container(owner.kind, content[plain], node, is_open=is_open and not is_empty)
                except TypeError:
                    return unknown_from(owner)
                if is_empty:
                    length = Constant(0, key.origins)
                    if isinstance(key, Constant):
                        length.source, length.node = key.source, key.node
                    self.store.set(made, "length", length)
                return made
            if isinstance(key, Result) and key.name == "slice" and isinstance(key.data, list):
                made = self._unknown_slice(owner, content, key, node)
                if isinstance(made, Container) and constant_of(key.data[0], 0) in {None, 0}:
                    self.store.set(made, "length", key.data[1])
                return made
            if type(plain) is int:
                if -len(content) <= plain < len(content) and (not is_open or plain >= 0):
                    return content[plain]  # type: ignore[no-any-return]
                return unknown_from(owner)
            values = list(content)
        if not values:
            return unknown_from(owner, key)
        result = values[0]
        for value in values[1:]:
            result = join(result, value)
        return join(result, unknown_from(owner, key)) if is_open else result

    def fitting(self, content: dict[Any, Value], name: Result) -> dict[Any, Value]:
        """The items whose names a text can be, of which only a part is known: ``f"{part}_lr"``."""
        pieces = [constant_of(part) for part in name.data] if isinstance(name.data, list) else []
        known = [piece for piece in pieces if isinstance(piece, str) and piece]
        if not known:
            return {}
        starts, ends = isinstance(pieces[0], str), isinstance(pieces[-1], str)
        return {
            key: value
            for key, value in content.items()
            if isinstance(key, str)
            and all(piece in key for piece in known)
            and (not starts or key.startswith(known[0]))
            and (not ends or key.endswith(known[-1]))
        }

    def _unknown_slice(self, owner: Container, content: tuple[Value, ...], key: Result, node: ast.AST) -> Container:
        """``paths[start : start + 8]``: some of the items; how many is kept where that is known."""
        made = self.container(owner.kind, content, node, is_open=True)
        lower, upper = key.data[:2] if key.data else (None, None)
        if isinstance(upper, Unknown) and upper.kind == "offset" and upper.base is lower and upper.bound is not None:
            self.store.set(made, "count", upper.bound)
        return made

    def _eval_Tuple(self, node: ast.Tuple) -> Value:
        return self._sequence("tuple", node.elts, node)

    def _eval_List(self, node: ast.List) -> Value:
        return self._sequence("list", node.elts, node)

    def _eval_Set(self, node: ast.Set) -> Value:
        return self._sequence("set", node.elts, node)

    def _sequence(self, kind: str, elements: Sequence[ast.expr], node: ast.expr) -> Container:
        items: list[Value] = []
        is_open = False
        for element in elements:
            if isinstance(element, ast.Starred):
                more, complete = self.listed(self.evaluate(element.value))
                items += more[: _MOST_ITEMS - len(items)]
                is_open |= not complete
            else:
                items.append(self.evaluate(element))
        return self.container(kind, items, node, is_open=is_open)

    def listed(self, value: Value) -> tuple[list[Value], bool]:
        """The items of something that is spread out, and whether they are all."""
        if isinstance(value, Container):
            items = self.items(value)
            return [Constant(key) for key in items] if isinstance(items, dict) else list(items), not self.store.get(
                value, "open"
            )
        items = self.libraries.items_of(self, value)
        return (items, True) if items is not None else ([], False)

    def _eval_Dict(self, node: ast.Dict) -> Value:
        made = self.container("dict", {}, node)
        content: dict[Any, Value] = {}  # set as a whole: each write of a container copies it
        for key, value in zip(node.keys, node.values, strict=True):
            name = self.evaluate(key) if key is not None else None
            plain = constant_of(name, self)
            if plain is not self and _hashable(plain):
                if len(content) < _MOST_ITEMS or plain in content:
                    content[plain] = self.evaluate(value)
                continue
            self.store.set(made, "items", {**self.items(made), **content})
            content.clear()
            if name is None:
                self.update(made, self.evaluate(value))
            else:
                self.set_item(made, name, self.evaluate(value), None)
        self.store.set(made, "items", {**self.items(made), **content})
        return made

    def update(self, owner: Container, other: Value) -> None:
        """``owner.update(other)``."""
        other = self._as_mapping(other)
        content = self.items(other) if isinstance(other, Container) and other.kind in _KEYED else None
        if content is None:
            if not (isinstance(other, Constant) and other.value is None):
                self.libraries.open_up(self, owner)
            return
        self.store.set(owner, "items", {**self.items(owner), **content})
        if self.store.get(other, "open"):
            self.libraries.open_up(self, owner)
        view = self.store.get(owner, "view")
        if isinstance(view, Value):
            for name, value in content.items():
                if isinstance(name, str):
                    self.set_attribute(view, name, value)

    def _eval_JoinedStr(self, node: ast.JoinedStr) -> Value:
        parts = [self.evaluate(value) for value in node.values]
        if all(isinstance(part, Constant) for part in parts):
            return made_text([str(constant_of(part)) for part in parts], *parts)
        return Result("text", None, tags_of(*parts), origins_of(*parts), data=parts)

    def _eval_FormattedValue(self, node: ast.FormattedValue) -> Value:
        value = self.evaluate(node.value)
        spec = self.evaluate(node.format_spec) if node.format_spec is not None else Constant("")
        if isinstance(value, Constant) and isinstance(spec, Constant):
            if node.conversion in {-1, 115} and not spec.value:
                return value if isinstance(value.value, str) else made_text([str(value.value)], value)
            if not _is_short_format(str(spec.value)) or isinstance(value.value, slice):
                return unknown_from(value)
            try:
                return Constant(format(value.value, str(spec.value)), value.origins)
            except RAISED as problem:
                return self.fail(node, type(problem).__name__, str(problem), value)
        return unknown_from(value)

    def _eval_IfExp(self, node: ast.IfExp) -> Value:
        test = self.test(node.test)
        truth = self.truth(test)
        if isinstance(truth, bool):
            self.decide(node, test)
            return self.evaluate(node.body if truth else node.orelse)
        found: list[Value] = []

        def arm(part: ast.expr, *, sense: bool) -> bool:
            self.narrow(node.test, sense=sense)
            found.append(self.evaluate(part))
            return True

        self.branch(test, node, lambda: arm(node.body, sense=True), lambda: arm(node.orelse, sense=False))
        if isinstance(truth, PerRank) and len(found) == 2:  # noqa: PLR2004 - both arms
            return PerRank(found[0], found[1])
        return join(found[0], found[1]) if len(found) > 1 else found[0]

    def test(self, node: ast.expr) -> Value:
        """The value of an expression of which only the truth counts: ``unknown or True`` is true."""
        if isinstance(node, ast.BoolOp):
            return self._bool_op(node, is_test=True)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.unary(node.op, self.test(node.operand), node)
        return self.evaluate(node)

    def _eval_BoolOp(self, node: ast.BoolOp) -> Value:
        return self._bool_op(node, is_test=False)

    def _bool_op(self, node: ast.BoolOp, *, is_test: bool) -> Value:
        is_and = isinstance(node.op, ast.And)
        seen: list[Value] = []
        moduli: tuple[Value, ...] = ()  # of parts that hold in every round
        ranked: PerRank | None = None
        for number, part in enumerate(node.values):
            value = self.test(part) if is_test else self.evaluate(part)
            truth = self.truth(value)
            last = number == len(node.values) - 1
            if isinstance(truth, bool):
                if not last:
                    self.decide(node, value)
                if truth is not is_and:
                    if seen and ranked is None and not is_test and type(constant_of(value)) is not bool:
                        return _joined([*seen, value])
                    return value if not seen and ranked is None else _known_part(value)
                moduli += value.moduli if isinstance(value, Constant) and is_and else ()
                if last and not seen and ranked is None and not moduli:
                    return value
                continue
            if isinstance(truth, PerRank):
                self.rank_tests.add(part)
                ranked = truth if ranked is None else self._both(ranked, truth, is_and=is_and)
                if last and not seen:
                    return ranked
                continue
            seen.append(value)
        if ranked is not None:
            if seen:  # known on the side that decides, unknown on the other
                decides = FALSE if is_and else TRUE
                rest = _merged_test(_parts_that_hold(seen, is_and=is_and))
                return PerRank(
                    *(decides if constant_of(each) is not is_and else rest for each in (ranked.first, ranked.others))
                )
            return ranked
        if not seen:
            return Constant(is_and, moduli=moduli)
        if len(seen) == 1 and not is_and and len(node.values) > 1:
            return (
                join(seen[0], self.evaluate(node.values[-1]))
                if not isinstance(node.values[-1], (ast.Call, ast.NamedExpr))
                else unknown_from(*seen)
            )
        return _merged_test(_parts_that_hold(seen, is_and=is_and))

    def _both(self, first: PerRank, second: PerRank, *, is_and: bool) -> PerRank:
        pick = all if is_and else any
        return PerRank(
            Constant(pick([constant_of(first.first), constant_of(second.first)])),
            Constant(pick([constant_of(first.others), constant_of(second.others)])),
        )

    def _eval_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.evaluate(node.operand)
        return self.unary(node.op, value, node)

    def unary(self, op: ast.unaryop, value: Value, node: ast.AST) -> Value:
        """``not``, ``-``, ``+``, ``~``."""
        if isinstance(op, ast.Not):
            truth = self.truth(value)
            if isinstance(truth, bool):
                self.decide(node, value)
                return Constant(not truth, value.origins, moduli=value.moduli if isinstance(value, Constant) else ())
            if isinstance(truth, PerRank):
                return PerRank(Constant(not constant_of(truth.first)), Constant(not constant_of(truth.others)))
            if isinstance(value, PerRank):
                return PerRank(self.unary(op, value.first, node), self.unary(op, value.others, node))
            if isinstance(value, LengthTest):
                return value.negated()
            return _negated(_merged_test([value]))
        if isinstance(value, Constant) and isinstance(value.value, (int, float)):
            if isinstance(op, ast.Invert) and isinstance(value.value, bool):  # of a tensor of truths
                return Constant(not value.value, value.origins)
            if isinstance(op, ast.Invert):
                return Constant(~value.value, value.origins) if isinstance(value.value, int) else unknown_from(value)
            number = -value.value if isinstance(op, ast.USub) else +value.value
            return Constant(number, value.origins, direct=value.direct, source=value.source, node=value.node)
        if isinstance(value, PerRank):
            return PerRank(self.unary(op, value.first, node), self.unary(op, value.others, node))
        if isinstance(value, Constant) and isinstance(value.value, str):
            return self.fail(node, "TypeError", "a sign needs a number", value)
        return unknown_from(value)

    def _eval_BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        counted = self.counts.get(id(left)) if isinstance(node.op, (ast.FloorDiv, ast.Mod)) else None
        if counted is None:
            return self.binary(node.op, left, right, node)
        result = self.binary(node.op, left if self.samples is None else Constant(self.samples), right, node)
        if isinstance(node.op, ast.FloorDiv):
            self.record(Division, node, counted[1], right, result)
        return result

    def count(self, value: Value, counted: Value) -> Value:
        """Note that a number is how many samples something holds."""
        if isinstance(counted, (Constant, Container)):
            return value
        if isinstance(value, Constant):  # which may be the setting itself
            value = Constant(value.value, value.origins, source=value.source, node=value.node)
        self.counts[id(value)] = (value, counted)
        return value

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        """Arithmetic; with a failure where Python would raise for these values."""
        if isinstance(op, ast.Mod) and isinstance(left, Constant) and isinstance(left.value, str):
            return self.libraries.percent(self, left, right)  # type: ignore[no-any-return]
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self._calculate(op, left, right, node)
        if isinstance(left, (Choice, PerRank)) or isinstance(right, (Choice, PerRank)):
            return self.combine(left, right, lambda one, other: self.binary(op, one, other, node))
        if isinstance(left, Container) and isinstance(right, Container) and isinstance(op, (ast.Add, ast.BitOr)):
            return self._concatenate(left, right, node)
        if isinstance(left, Container) and isinstance(op, ast.Mult) and type(constant_of(right)) is int:
            times = constant_of(right)
            content = self.items(left)
            if left.kind in {"list", "tuple"} and 0 <= times * len(content) <= _MOST_ITEMS:
                return self.container(left.kind, content * times, node, is_open=bool(self.store.get(left, "open")))
        if isinstance(left, Instance):
            result = self.call_method(left, _OPERATORS.get(op.__class__, ""), [right], {}, node)
            if result is not None:
                return result
        counts_cards = isinstance(right, Unknown) and right.kind == "torch.cuda.device_count"
        if (
            isinstance(op, ast.Mod)
            and isinstance(left, Constant)
            and isinstance(right, Unknown)
            and (left.value == 0 or (left.value == 1 and counts_cards))
        ):
            return left  # ranks share a node with several cards: ``rank % device_count()`` is 0 on the first alone
        within = combined(op, left, right)
        if within is not None:
            if isinstance(within, Constant) and within.origins and isinstance(node, ast.expr):
                within.source, within.node = self.frame.source, node
            if isinstance(within, Unknown) and isinstance(left, Unknown) and isinstance(right, Constant):
                _note_offset(within, op, left, right)
            return within
        if isinstance(op, ast.Mod) and not isinstance(left, (Container, Result)) and not _is_text(left):
            if constant_of(right) == 1 and type(constant_of(right)) is int and "loop" in left.tags:
                return Constant(0, origins_of(left, right), moduli=(right,))  # a counter divides by 1
            remainder = Unknown(tags_of(left, right), origins_of(left, right), kind="remainder", moduli=(right,))
            remainder.base = left
            return remainder
        if _is_text(left) or _is_text(right):
            if isinstance(op, ast.Add):
                parts = [
                    part
                    for value in (left, right)
                    for part in (value.data if isinstance(value, Result) and value.name == "text" else [value])
                ]
                return Result("text", None, tags_of(left, right), origins_of(left, right), data=parts)
            if isinstance(op, ast.Mult) and "tensor" not in tags_of(left, right):
                return Result("text", None, tags_of(left, right), origins_of(left, right), data=[left, right])
            if isinstance(op, ast.Div):  # a path
                return self.libraries.joined_path(self, [left, right])  # type: ignore[no-any-return]
        if isinstance(op, ast.Div) and isinstance(left, Result) and left.name == "pathlib.Path":
            return self.libraries.joined_path(self, [left, right])  # type: ignore[no-any-return]
        self.libraries.check_operands(self, _SIGNS.get(op.__class__, ""), left, right, node)
        length = worked_out(op, left, right)
        if length is not None:
            if isinstance(left, Length) and isinstance(right, Constant):
                _note_offset(length, op, left, right)
            return length
        total = added_to_total(op, left, right)
        if total is not None:
            return total
        if isinstance(left, Unknown) and isinstance(right, Constant) and type(right.value) is int:
            return _with_offset(op, left, right)
        if isinstance(op, ast.Div) and constant_of(right) == _BYTE:
            return unknown_from(left, right, add=("scaled",))
        made = unknown_from(left, right)
        if "graph" in made.tags and self.libraries.records_no_graph(self):
            made.tags -= {"graph"}
        return made

    def combine(self, left: Value, right: Value, operate: Callable[[Value, Value], Value]) -> Value:
        """An operation on every combination of options, and on each side of the ranks."""
        left, right = self.pick(left), self.pick(right)
        if isinstance(left, PerRank) or isinstance(right, PerRank):
            first = operate(
                left.first if isinstance(left, PerRank) else left, right.first if isinstance(right, PerRank) else right
            )
            others = operate(
                left.others if isinstance(left, PerRank) else left, right.others if isinstance(right, PerRank) else right
            )
            if isinstance(first, Constant) and isinstance(others, Constant) and first.value == others.value:
                return first
            return PerRank(first, others)
        lefts = left.options if isinstance(left, Choice) else (left,)
        rights = right.options if isinstance(right, Choice) else (right,)
        if len(lefts) * len(rights) > _MOST_COMBINATIONS:
            return unknown_from(left, right)
        result: Value | None = None
        for one in lefts:
            for other in rights:
                with self.inside("option", self.region.node):  # what fails for one option may not come to be
                    value = operate(one, other)
                result = value if result is None else join(result, value)
        return result if result is not None else Unknown()

    def _calculate(self, op: ast.operator, left: Constant, right: Constant, node: ast.AST) -> Value:
        one, other = left.value, right.value
        origins = origins_of(left, right)
        operation = _BINARY.get(op.__class__)
        if operation is None or not _is_bounded(op, one, other):
            return unknown_from(left, right)
        try:
            result = operation(one, other)
        except ZeroDivisionError as problem:
            return self.fail(node, "ZeroDivisionError", str(problem), left, right)
        except TypeError as problem:
            return self.fail(node, "TypeError", str(problem), left, right)
        except RAISED:
            return unknown_from(left, right)
        written = node if isinstance(node, ast.expr) and (origins or isinstance(result, str)) else None
        return made_number(result, left, right, source=self.frame.source, node=written)

    def _concatenate(self, left: Container, right: Container, node: ast.AST) -> Value:
        is_open = bool(self.store.get(left, "open") or self.store.get(right, "open"))
        if left.kind in _KEYED and right.kind in _KEYED:
            return self.container(left.kind, {**self.items(left), **self.items(right)}, node, is_open=is_open)
        if left.kind in _KEYED or right.kind in _KEYED:
            return unknown_from(left, right)
        return self.container(left.kind, (*self.items(left), *self.items(right)), node, is_open=is_open)

    def _eval_Compare(self, node: ast.Compare) -> Value:
        left = self.evaluate(node.left)
        results: list[Value] = []
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(comparator)
            result = self.compare(op, left, right, node)
            if len(node.ops) == 1:
                return result
            if self.truth(result) is False:
                return result
            results.append(result)
            left = right
        if all(self.truth(result) is True for result in results):
            return results[-1]
        return _merged_test(results)

    def compare(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST | None = None) -> Value:
        """A comparison."""
        if isinstance(left, (Choice, PerRank)) or isinstance(right, (Choice, PerRank)):
            return self.combine(left, right, lambda one, other: self.compare(op, one, other, node))
        if node is not None:
            self._compare_words(left, right, node)
            self._compare_words(right, left, node)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._membership(op, left, right)
        if isinstance(op, (ast.Is, ast.IsNot)):
            same = self._identical(left, right)
            return (
                Constant(same == isinstance(op, ast.Is), origins_of(left, right))
                if same is not None
                else _merged_test([left, right])
            )
        operation = _COMPARE.get(op.__class__)
        if isinstance(left, Constant) and isinstance(right, Constant) and operation is not None:
            try:
                moduli = left.moduli if isinstance(op, ast.Eq) else ()
                return Constant(bool(operation(left.value, right.value)), origins_of(left, right), moduli=moduli)
            except TypeError as problem:
                return self.fail(node, "TypeError", str(problem), left, right) if node is not None else Unknown()
            except ValueError:
                return Unknown()
        if isinstance(op, (ast.Eq, ast.NotEq)):
            if left is right and isinstance(left, Unknown) and node is not None:  # only NaN differs from itself
                return self.libraries.compared_with_itself(self, left, node, is_equal=isinstance(op, ast.Eq))  # type: ignore[no-any-return]
            same = self._equal(left, right)
            if same is not None:
                return Constant(same == isinstance(op, ast.Eq), origins_of(left, right))
        elif node is not None:
            self.libraries.check_operands(self, "<", left, right, node)
        result: Unknown = compared_length(op, left, right) or _merged_test([left, right])
        result.bound = right if "loop" in left.tags else left if "loop" in right.tags else None
        result.base = left if "loop" in left.tags else right
        if result.moduli:
            result.kind = "remains" if isinstance(op, (ast.NotEq, ast.Gt)) and constant_of(right) == 0 else "divides"
        return result

    def _compare_words(self, setting: Value, other: Value, node: ast.AST) -> None:
        """A switch that is compared with words is none of them."""
        if not (isinstance(setting, Constant) and isinstance(setting.value, bool) and setting.direct):
            return
        for item in self.listed(other)[0] if isinstance(other, Container) else [other]:
            if isinstance(constant_of(item), str):
                self.decide(node, setting, constant_of(item))

    def _equal(self, left: Value, right: Value) -> bool | None:
        if (
            isinstance(left, Container)
            and isinstance(right, Container)
            and left.kind not in _KEYED
            and right.kind not in _KEYED
        ):
            if self.store.get(left, "open") or self.store.get(right, "open"):
                return None
            ones, others = self.items(left), self.items(right)
            if len(ones) != len(others):
                return False
            pairs = [
                self._equal(one, other)
                if not (isinstance(one, Constant) and isinstance(other, Constant))
                else one.value == other.value
                for one, other in zip(ones, others, strict=True)
            ]
            return True if all(pair is True for pair in pairs) else False if False in pairs else None
        objects = (Function, Class, Module, Container)
        if isinstance(left, objects) and isinstance(right, Constant):
            return False
        if isinstance(right, objects) and isinstance(left, Constant):
            return False
        if isinstance(left, Library) and isinstance(right, Library):
            return left.name == right.name
        if isinstance(left, Class) and isinstance(right, Class):
            return left is right
        numbers = [each for each in (left, right) if isinstance(each, Result) and each.name == "process number"]
        if len(numbers) == 2:  # noqa: PLR2004 - two processes
            return numbers[0].data is numbers[1].data
        if numbers and any(isinstance(each, Constant) and each.value is None for each in (left, right)):
            return False
        return None

    def _identical(self, left: Value, right: Value) -> bool | None:
        if isinstance(left, Constant) and isinstance(right, Constant):
            if left.value is None or right.value is None or isinstance(left.value, bool) or isinstance(right.value, bool):
                return left.value is right.value
            return left.value == right.value or None
        things = (Function, Class, Module, Library, Instance, Container, Partial, Generator)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Constant):
                is_number = isinstance(other, Unknown) and (other.kind in _OF_NUMBERS or other.bounds is not None)
                if is_number and one.value is None:
                    return False
                if isinstance(other, things) or (isinstance(other, Result) and other.name in self.libraries.OBJECTS):
                    return False
                return None
        if isinstance(left, things) and isinstance(right, things):
            return left is right or (isinstance(left, Library) and isinstance(right, Library) and left.name == right.name)
        return None

    def _membership(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        found: bool | None = None
        if isinstance(right, Instance) and self._find(right.cls, "__contains__") is None:
            right = self.libraries.mapping(self, right) or right
        if (
            isinstance(right, Constant)
            and isinstance(left, Constant)
            and isinstance(right.value, str)
            and isinstance(left.value, str)
        ):
            found = left.value in right.value
        elif isinstance(right, Container):
            items = self.items(right)
            values = [Constant(key) for key in items] if isinstance(items, dict) else list(items)
            is_open = bool(self.store.get(right, "open"))
            if isinstance(left, Constant):
                if any(isinstance(value, Constant) and value.value == left.value for value in values):
                    found = True
                elif not is_open and all(isinstance(value, Constant) for value in values):
                    found = False
            elif not values and not is_open:
                found = False
        elif isinstance(right, (Result, Library)):
            found = self.libraries.contains(self, right, left)
        if found is None:
            return _merged_test([left, right])
        return Constant(found == isinstance(op, ast.In), origins_of(left, right))

    def _eval_Lambda(self, node: ast.Lambda) -> Value:
        return self.function(node, "<lambda>")

    def _eval_Await(self, node: ast.Await) -> Value:
        return self.evaluate(node.value)

    def _eval_Starred(self, node: ast.Starred) -> Value:
        return self.evaluate(node.value)

    def _eval_Yield(self, node: ast.Yield) -> Value:
        value = self.evaluate(node.value) if node.value is not None else NONE
        return self.frame.yielded(value) if self.frame.yielded is not None else Unknown()

    def _eval_YieldFrom(self, node: ast.YieldFrom) -> Value:
        inner = self.evaluate(node.value)
        handler = self.frame.yielded
        if handler is None:
            return Unknown()
        if isinstance(inner, Generator):
            inner.run(handler)
        else:
            handler(self.element(inner, node))
        return Unknown()

    def _eval_ListComp(self, node: ast.ListComp) -> Value:
        return self._comprehension("list", node, node.generators, node.elt)

    def _eval_SetComp(self, node: ast.SetComp) -> Value:
        return self._comprehension("set", node, node.generators, node.elt)

    def _eval_GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return self._comprehension("list", node, node.generators, node.elt)

    def _eval_DictComp(self, node: ast.DictComp) -> Value:
        return self._comprehension("dict", node, node.generators, node.key, node.value)

    def _comprehension(
        self,
        kind: str,
        node: ast.expr,
        generators: list[ast.comprehension],
        element: ast.expr,
        value: ast.expr | None = None,
    ) -> Value:
        made = self.container(kind, {} if kind == "dict" else (), node)
        frame = Frame(self.frame.source, self.frame.module, self.frame, self.frame.function or _NO_FUNCTION)
        frame.receiver, frame.yielded = self.frame.receiver, self.frame.yielded
        before, self.frame = self.frame, frame
        try:
            self._generate(made, node, generators, element, value)
        finally:
            self.frame = before
        return made

    def _generate(
        self, made: Container, node: ast.expr, generators: list[ast.comprehension], element: ast.expr, value: ast.expr | None
    ) -> None:
        if not generators:
            self.tick()
            if value is not None:
                self.set_item(made, self.evaluate(element), self.evaluate(value), node)
            else:
                self.store.set(made, "items", (*self.items(made), self.evaluate(element))[:_MOST_ITEMS])
            return
        generator = generators[0]
        iterable = self.evaluate(generator.iter)
        if isinstance(iterable, Generator):
            iterable = self.container("list", iterable.collect(), node, is_open=True)
        if len(generators) == 1 and not generator.ifs:
            self.store.set(made, "length", self.length_of(iterable))
        items = self.unrolled(iterable, node)
        rounds = items if items is not None else self._known_texts(iterable) or [self.element(iterable, node)]
        if items is None:
            self.store.set(made, "open", True)
        for item in rounds:
            with self.inside("loop", node, iterable=iterable) as region:
                self.assign(generator.target, item, node)
                tests = [self.test(condition) for condition in generator.ifs]
                region.test = next((test for test in tests if isinstance(test, LengthTest)), None)
                truths = [self.truth(test) for test in tests]
                if False in truths:
                    continue
                if any(truth is not True for truth in truths):
                    self.store.set(made, "open", True)
                self._generate(made, node, generators[1:], element, value)

    def _known_texts(self, iterable: Value) -> list[Value]:
        """The texts in a list that may hold more, as the names of modules to import; none where something else is in it."""
        items = self.items(iterable) if isinstance(iterable, Container) and iterable.kind == "list" else ()
        is_short = 0 < len(items) <= _MOST_PLAIN
        return list(items) if is_short and all(isinstance(constant_of(item), str) for item in items) else []

    def length_of(self, value: Value) -> Value | None:
        """How many items something has, where a number of the program says so."""
        if isinstance(value, Container):
            found = self.store.get(value, "length")
            return found if isinstance(found, Value) else None
        if isinstance(value, Result) and value.name == "range" and value.call is not None and len(value.call.arguments) == 1:
            return value.call.arguments[0]
        return None

    # ---- calls

    def _eval_Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super(node)
        before, self.called = self.called, node.func
        function = self.evaluate(node.func)
        self.called = before
        arguments: list[Value] = []
        behind: list[Value] = []  # a list of unknown length
        complete = True
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                items, whole = self.listed(self.evaluate(argument.value))
                arguments += items[: _MOST_ITEMS - len(arguments)] if complete else ()
                behind = [] if not (complete and whole) else behind
                complete &= whole
            else:
                value = self.evaluate(argument)
                (arguments if complete else behind).append(value)
        if behind and not node.keywords:
            count = _wanted(function)
            if count is not None and count >= len(arguments) + len(behind):
                arguments += [*(Unknown() for _ in range(count - len(arguments) - len(behind))), *behind]
                complete = True
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            value = self._as_mapping(value)
            if isinstance(value, Container) and value.kind in _KEYED:
                keywords.update({key: item for key, item in self.entries(value).items() if isinstance(key, str)})
                complete &= not self.store.get(value, "open")
            else:
                complete = False
        return self.call(function, arguments, keywords, node, complete=complete)

    def _as_mapping(self, value: Value) -> Value:
        """The content of an object whose class is a dictionary, or of one of several dictionaries; anything else as it is."""
        if isinstance(value, Choice):
            mappings = [self._as_mapping(option) for option in value.options if isinstance(option, (Container, Instance))]
            known = [mapping for mapping in mappings if isinstance(mapping, Container) and mapping.kind in _KEYED]
            if len(known) < 2:  # noqa: PLR2004 - of several
                return known[0] if known else value
            keys = dict.fromkeys(key for mapping in known for key in self.items(mapping))
            return self.container(
                "dict",
                {key: _joined([self.items(each).get(key) or Unknown() for each in known]) for key in keys},
                is_open=True,
            )
        mapping = self.libraries.mapping(self, value) if isinstance(value, Instance) else None
        return mapping if mapping is not None else value

    def _super(self, node: ast.Call) -> Value:
        frame: Any = self.frame
        while isinstance(frame, Frame) and (frame.receiver is None or frame.cls is None):
            frame = frame.outer
        if isinstance(frame, Frame) and frame.cls is not None and frame.receiver is not None:
            cls = self.evaluate(node.args[0]) if node.args else frame.cls
            return Super(cls if isinstance(cls, Class) else frame.cls, frame.receiver)
        return Unknown()

    def call(
        self, function: Value, arguments: list[Value], keywords: dict[str, Value], node: ast.AST, *, complete: bool = True
    ) -> Value:
        """Call a value."""
        self.tick()
        if isinstance(function, PerRank):
            function = self.pick(function)
            if isinstance(function, PerRank):
                function = function.first
        if isinstance(function, Function):
            return self.call_function(function, arguments, keywords, node, complete=complete)
        if isinstance(function, Bound):
            inner = function.function
            if isinstance(inner, Function):
                return self.call_function(inner, [function.receiver, *arguments], keywords, node, complete=complete)
            if isinstance(inner, Library):
                return self.call_library(
                    inner.name, arguments, keywords, node, receiver=function.receiver, complete=complete
                )
            return self.call(inner, arguments, keywords, node, complete=complete)
        if isinstance(function, Library):
            return self.call_library(function.name, arguments, keywords, node, complete=complete)
        if isinstance(function, Class):
            return self.instantiate(function, arguments, keywords, node, complete=complete)
        if isinstance(function, Partial):
            return self.call(
                function.function,
                [*function.arguments, *arguments],
                {**function.keywords, **keywords},
                node,
                complete=complete,
            )
        if isinstance(function, Instance):
            return self._call_instance(function, arguments, keywords, node, complete=complete)
        if isinstance(function, Choice):
            return self._call_choice(function, arguments, keywords, node, complete=complete)
        if isinstance(function, Result):
            return self.call_library(
                f"{function.name}.__call__", arguments, keywords, node, receiver=function, complete=complete
            )
        return self.call_library("?", arguments, keywords, node, receiver=function, complete=complete)

    def _call_choice(
        self, function: Choice, arguments: list[Value], keywords: dict[str, Value], node: ast.AST, *, complete: bool
    ) -> Value:
        callable_options = [option for option in function.options if not isinstance(option, (Constant, Unknown))]
        if len(callable_options) == 1:
            return self.call(callable_options[0], arguments, keywords, node, complete=complete)
        fork = Fork(self.store)
        result: Value | None = None
        for option in callable_options[:4]:
            with self.inside("branch", node, test=Unknown()):
                value = self.call(option, arguments, keywords, node, complete=complete)
            fork.end()
            result = value if result is None else join(result, value)
        if result is None:
            return unknown_from(*arguments)
        fork.join()
        return result

    def _call_instance(
        self, function: Instance, arguments: list[Value], keywords: dict[str, Value], node: ast.AST, *, complete: bool
    ) -> Value:
        method = self._find_method(function.cls, "__call__")
        if method is not None:
            return self.call_function(method, [function, *arguments], keywords, node, complete=complete)
        return self.libraries.call_instance(self, function, arguments, keywords, node, complete=complete)  # type: ignore[no-any-return]

    def instantiate(
        self, cls: Class, arguments: list[Value], keywords: dict[str, Value], node: ast.AST, *, complete: bool = True
    ) -> Value:
        """An object of a class of the program."""
        call: Call = self.record(Call, node, cls.name, arguments, keywords, complete=complete)
        made = self.libraries.instance(self, cls, arguments, keywords, call)
        if made is not None:
            call.result = made
            return made  # type: ignore[no-any-return]
        instance = Instance(cls, call)
        call.result = instance
        method = self._find_method(cls, "__init__")
        if method is not None:
            self._follow(method, [instance, *arguments], keywords, call, complete=complete)
        else:
            self.libraries.initialise(self, instance, arguments, keywords, complete=complete)
        return instance

    def call_function(
        self, function: Function, arguments: list[Value], keywords: dict[str, Value], node: ast.AST, *, complete: bool = True
    ) -> Value:
        """A call of a function of the program."""
        name = f"{function.owner.name}.{function.name}" if function.owner is not None else function.name
        call: Call = self.record(Call, node, name, arguments, keywords, complete=complete)
        call.function = function
        if function.is_generator is None:
            function.is_generator = _yields(function.node)
        if function.is_generator:
            return Generator(function, lambda handler: self._generator(function, arguments, keywords, call, handler))
        unknown_imports = self.unknown_imports
        call.result = self._follow(function, arguments, keywords, call, complete=complete)
        if self.unknown_imports > unknown_imports and isinstance(call.result, Unknown):
            named = self.libraries.named_by(self, (*arguments, *keywords.values()))
            call.result = named if named is not None else call.result
        return call.result

    def _generator(
        self,
        function: Function,
        arguments: list[Value],
        keywords: dict[str, Value],
        call: Call,
        handler: Callable[[Value], Value],
    ) -> None:
        self._follow(function, arguments, keywords, call, yielded=handler)

    def _follow(  # noqa: PLR0913 - a call with everything around it
        self,
        function: Function,
        arguments: list[Value],
        keywords: dict[str, Value],
        call: Call,
        *,
        complete: bool = True,
        yielded: Callable[[Value], Value] | None = None,
        kind: str = "call",
    ) -> Value:
        count = self.repeats.get(function.node, 0) + 1
        dear = count > _FREE_REPEATS and self.spent.get(function.node, 0) > _MOST_SPENT
        if dear or self._recurs(function, arguments):
            self.unresolved += 1
            self.left_out.add(function.node)
            self.libraries.lose((*arguments, *keywords.values()))
            if yielded is not None:
                yielded(Unknown())
            return unknown_from(*arguments[:1])
        self.repeats[function.node] = count
        closure, module = function.closure
        frame = Frame(function.source, module, closure, function)
        frame.yielded = yielded
        if function.owner is not None:
            frame.cls = function.owner
            frame.receiver = arguments[0] if arguments else None
        caller, self.frame = self.frame, frame
        before = self.region
        body = Region(
            kind, before, function.source, function.node, attach=False, call=call
        )  # it is reached through its call
        call.body = body
        self.region = body
        self.stack.append(function)
        self.depth += 1
        begun = self.steps
        fork = frame.fork = Fork(self.store)
        try:
            self._bind_parameters(function, frame, arguments, keywords, complete=complete)
            with self.libraries.decorating(self, function):
                if isinstance(function.node, ast.Lambda):
                    frame.returns.append((self.side, self.evaluate(function.node.body)))
                    falls = True
                else:
                    falls = self.block(function.node.body)
                ended = self.region.ranks()
        finally:
            self.depth -= 1
            self.stack.pop()
            self.region, self.frame = before, caller
            self.spent[function.node] = self.spent.get(function.node, 0) + self.steps - begun
        if falls:
            if fork.ends:
                fork.keep()
                fork.join()
            if not isinstance(function.node, ast.Lambda):
                frame.returns.append((ended, NONE))
        elif fork.ends:
            fork.join()
        body.completes = falls or bool(frame.returns)
        if not frame.is_captured:
            self.store.forget(frame, frame.bound)
        return self._returned(frame, before.ranks())

    def _recurs(self, function: Function, arguments: list[Value]) -> bool:
        """Whether calls are nested too deeply to be followed, or a function calls itself too often; either may go on for ever."""
        within = self.stack.count(function)
        is_known = not any(isinstance(value, Unknown) for value in arguments)
        is_deep = self.depth >= _DEEPEST or within >= (_MOST_KNOWN_RECURSION if is_known else _MOST_RECURSION)
        self.endless += is_deep
        return is_deep

    def _returned(self, frame: Frame, side: str) -> Value:
        """What a call gives: one value, one of several, or another on rank 0."""
        if not frame.returns:
            return Result("never")
        if side or all(not where for where, _ in frame.returns):
            return either([value for _, value in frame.returns])
        first = [value for where, value in frame.returns if where != "others"]
        others = [value for where, value in frame.returns if where != "first"]
        if not first or not others:
            return either([value for _, value in frame.returns])
        one, other = either(first), either(others)
        if one is other or (isinstance(one, Constant) and isinstance(other, Constant) and one.value == other.value):
            return one
        return PerRank(one, other)

    def _bind_parameters(
        self, function: Function, frame: Frame, arguments: list[Value], keywords: dict[str, Value], *, complete: bool
    ) -> None:
        parameters = function.node.args
        positional = [*parameters.posonlyargs, *parameters.args]
        left = dict(keywords)
        values = self.store
        for number, parameter in enumerate(positional):
            name = parameter.arg
            if number < len(arguments):
                value = arguments[number]
            elif name in left:
                value = left.pop(name)
            else:
                value = self._left_out(function, name, complete=complete)
            frame.bound[name] = None
            values.set(frame, name, value)
        for parameter in parameters.kwonlyargs:
            name = parameter.arg
            frame.bound[name] = None
            values.set(frame, name, left.pop(name) if name in left else self._left_out(function, name, complete=complete))
        name, value = next(((name, value) for name, value in left.items() if value.origins), ("", NONE))
        if name and parameters.kwarg is None and not function.decorators and not isinstance(function.node, ast.Lambda):
            self.fail(function.node, "TypeError", f"{function.name}() got an unexpected keyword argument '{name}'", value)
        if parameters.vararg is not None:
            rest = self.container("tuple", arguments[len(positional) :], is_open=not complete)
            values.set(frame, parameters.vararg.arg, rest)
        if parameters.kwarg is not None:
            values.set(frame, parameters.kwarg.arg, self.container("dict", left, is_open=not complete))

    def _left_out(self, function: Function, name: str, *, complete: bool) -> Value:
        """A parameter that a call does not give: a binding of a library, the default, or unknown."""
        bound: Value | None = self.libraries.bound_default(self, function, name, function.node)
        if bound is not None:
            return bound
        return function.defaults[name] if name in function.defaults and complete else Unknown()

    def call_library(
        self,
        name: str,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.AST,
        *,
        receiver: Value | None = None,
        complete: bool = True,
    ) -> Value:
        """A call that leads out of the program: recorded, and answered by what is known of the library."""
        call: Call = self.record(Call, node, name, arguments, keywords, receiver=receiver, complete=complete)
        result = self.libraries.answer(self, call)
        call.result = result
        if not isinstance(result, (Constant, Container)):
            self.opaque += 1
        return result  # type: ignore[no-any-return]

    def call_back(
        self, function: Value, arguments: list[Value], node: ast.AST, kind: str = "maybe", owner: Value | None = None
    ) -> Value:
        """A function that a library will call for an object of its own: a hook, a worker's code, a thread's target."""
        with self.inside(kind, node, value=owner):
            return self.call(function, arguments, {}, node)


_THERE = sys.stdlib_module_names | {"torch"}  # what a training surely has: importing it does not fail
_GRAPH = frozenset({"graph"})
_ANY_COUNT = (-(1 << 39), 1 << 39)
_OF_NUMBERS = frozenset({"index", "offset", "number", "length", "remainder"})  # kinds of unknown values that are numbers
_BYTE = 255  # ``image / 255`` makes floats between 0 and 1 of 8-bit values; the tag ``scaled`` says so
_SMALL = frozenset({"shape", "dtype", "ndim", "device", "nbytes"})  # attributes of arrays that hold none of their data
_KEYED = frozenset({"dict", "namespace", "config"})
_NO_SOURCE: Any = None
_NO_FUNCTION = Function(
    ast.Lambda(args=ast.arguments([], [], None, [], [], None, []), body=ast.Constant(None)), _NO_SOURCE, None, {}, None, ""
)
_OPERATORS = {
    ast.Add: "__add__",
    ast.Sub: "__sub__",
    ast.Mult: "__mul__",
    ast.Div: "__truediv__",
    ast.FloorDiv: "__floordiv__",
    ast.Mod: "__mod__",
    ast.BitOr: "__or__",
}


def _only_speaks(body: Sequence[ast.stmt]) -> bool:
    """Whether a block says something and does nothing else: two calls or more, of which the last may end the program."""
    return len(body) > 1 and all(isinstance(statement, ast.Expr) for statement in body)


def _is_short(node: ast.AST, rounds: int) -> bool:
    """Whether a loop or comprehension holds no other and can be followed round by round."""
    is_loop = isinstance(node, (ast.For, ast.AsyncFor))
    nodes = [
        part
        for statement in (node.body if isinstance(node, (ast.For, ast.AsyncFor)) else [node])
        for part in ast.walk(statement)
    ]
    own = 0 if is_loop else 1  # the ``for`` of a comprehension
    inner = (ast.For, ast.While, ast.FunctionDef) if is_loop else (ast.comprehension, ast.Lambda)
    is_flat = sum(isinstance(part, inner) for part in nodes) <= own
    return is_flat and len(nodes) * rounds <= _MOST_NODES


def _name_of(value: Value) -> str:
    if isinstance(value, Library):
        return value.name
    if isinstance(value, Bound) and isinstance(value.function, Library):
        return value.function.name
    return value.name if isinstance(value, Result) else ""


def _with_offset(op: ast.operator, left: Unknown, right: Constant) -> Unknown:
    """An unknown value and a whole number: ``start + 8`` is known to be 8 more than ``start``."""
    made = unknown_from(left, right)
    if isinstance(op, ast.Div) and right.value == _BYTE:
        made.tags |= {"scaled"}
    _note_offset(made, op, left, right)
    return made


def _note_offset(made: Unknown, op: ast.operator, left: Unknown, right: Constant) -> None:
    if isinstance(op, (ast.Add, ast.Sub)) and type(right.value) is int:
        known = constant_of(left.bound, 0) if left.kind == "offset" else 0
        made.kind, made.base = "offset", left.base if left.kind == "offset" else left
        made.bound = Constant(known + right.value if isinstance(op, ast.Add) else known - right.value, made.origins)


def _joined(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def _widened(before: Value, after: Value) -> Value:
    if before is after:
        return before
    if (
        isinstance(before, Constant)
        and isinstance(after, Constant)
        and type(before.value) is type(after.value)
        and before.value == after.value
    ):
        return before
    options = [option for value in (before, after) for option in (value.options if isinstance(value, Choice) else (value,))]
    if not all(isinstance(option, (Constant, Unknown)) for option in options):
        return join(before, after)
    nothing = [option for option in options if isinstance(option, Constant) and option.value is None]
    rest = [option for option in options if option not in nothing]
    changed = unknown_from(*rest, add=("loop",))
    return join(nothing[0], changed) if nothing else changed


def _merged_test(values: list[Value]) -> Unknown:
    """A test of unknown outcome; the periods of remainders stay with it."""
    options = [option for value in values for option in (value.options if isinstance(value, Choice) else (value,))]
    tests = [option for option in options if isinstance(option, Unknown)]
    moduli = tuple(modulus for value in tests for modulus in value.moduli)
    bound = next((value.bound for value in tests if value.bound is not None), None)
    kind = next((value.kind for value in tests if value.moduli), "")
    merged = Unknown(tags_of(*values) - _GRAPH, origins_of(*values), kind=kind, moduli=moduli, bound=bound)
    merged.base = next((value for value in tests if value.moduli), None)
    return merged


def _parts_that_hold(values: list[Value], *, is_and: bool) -> list[Value]:
    """The parts of a condition whose periods it has: of ``a % b != 0 and c % d == 0`` the second alone."""
    values = [_merged_test([value]) if isinstance(value, Choice) else value for value in values]
    periodic = [value for value in values if isinstance(value, Unknown) and value.moduli]
    kept = [value for value in periodic if (value.kind == "divides") is is_and]
    return [value if value in kept or value not in periodic else unknown_from(value) for value in values] if kept else values


def _negated(test: Unknown) -> Unknown:
    """``not os.path.exists(path)`` asks whether something is missing; ``not step % every`` whether it divides."""
    swapped = {"exists": "missing", "missing": "exists"}
    if test.moduli:
        test.kind = "remains" if test.kind == "divides" else "divides"
    if not test.tags & swapped.keys():
        return test
    tags = frozenset(swapped.get(tag, tag) for tag in test.tags)
    return Unknown(tags, test.origins, kind=test.kind, moduli=test.moduli, bound=test.bound)


def _side(first: object, others: object, *, unless: bool) -> str:
    """The ranks that may come to an arm: those for which the test is not surely the other way."""
    comes = (first is not unless, others is not unless)
    return "" if all(comes) else "first" if comes[0] else "others"


def _is_opaque(value: Value, libraries: Any) -> bool:  # noqa: ANN401 - see libraries
    """Whether a value is what a call of a library gave of which nothing is known."""
    return isinstance(value, Unknown) or (isinstance(value, Result) and not libraries.is_modelled(value))


def _as_read(target: ast.expr) -> str:
    """A target of an assignment, as it would be written where it is read."""
    return ast.dump(target).replace("Store()", "Load()")


def _base_of(value: Value) -> Value:
    options = value.options if isinstance(value, Choice) else (value,)
    known = next((option for option in options if isinstance(option, (Class, Library))), None)
    return known if known is not None else value if isinstance(value, Result) else Library("?")


def _message_of(error: Value) -> str:
    """What an error says, where that is known."""
    first = error.argument(0) if isinstance(error, Result) else None
    plain = constant_of(first)
    return plain if isinstance(plain, str) else ""


def _is_secret(value: Value) -> bool:
    """Whether a text comes of a setting of whose name it is the secret."""
    plain = constant_of(value)
    return isinstance(plain, str) and any(stands_for_secret(fact.spelling or fact.name, plain) for fact in value.origins)


def _known_part(value: Value) -> Value:
    """A part that decides a condition whatever the others are."""
    return Constant(value.value, value.origins, moduli=value.moduli) if isinstance(value, Constant) else value


def _is_text(value: Value) -> bool:
    return (isinstance(value, Constant) and isinstance(value.value, str)) or (
        isinstance(value, Result) and value.name == "text"
    )


def _hashable(value: object) -> bool:
    return isinstance(value, (str, int, float, bool, bytes, type(None), tuple))


def _is_short_format(spec: str) -> bool:
    """Whether a format cannot fill the memory: no width or precision of more than three digits."""
    return len(spec) <= 12 and len("".join(filter(str.isdigit, spec))) <= 3  # noqa: PLR2004 - what people write


def calculate(op: ast.operator, one: Any, other: Any) -> Any:  # noqa: ANN401 - constants
    """Arithmetic of two constants as Python does it; ``ValueError`` where the result could fill the memory."""
    operation = _BINARY.get(op.__class__)
    if operation is None or not _is_bounded(op, one, other):
        raise ValueError(op)
    return operation(one, other)


def _is_bounded(op: ast.operator, one: Any, other: Any) -> bool:  # noqa: ANN401 - constants
    """Whether an operation cannot fill the memory or take long."""
    if isinstance(op, ast.Pow):
        return isinstance(one, (int, float)) and isinstance(other, (int, float)) and abs(one) < 10**6 and abs(other) <= 64  # noqa: PLR2004 - what settings calculate
    if isinstance(op, (ast.LShift, ast.RShift)):
        return isinstance(one, int) and isinstance(other, int) and abs(one) < 2**40 and 0 <= other <= 64  # noqa: PLR2004 - likewise
    if isinstance(op, ast.Mult):
        for text, times in ((one, other), (other, one)):
            if isinstance(text, (str, bytes)):
                return not isinstance(times, int) or len(text) * max(times, 0) < LONGEST_TEXT
    if isinstance(op, ast.Mod) and isinstance(one, (str, bytes)):
        return len(one) < 400 and not any(letter.isdigit() or letter == "*" for letter in str(one).partition("%")[2][:6])  # noqa: PLR2004 - widths
    return not (isinstance(one, (str, bytes)) and len(one) > LONGEST_TEXT)


def _wanted(function: Value) -> int | None:
    """How many arguments a function of the program takes, where it takes no other number."""
    inner = function.function if isinstance(function, Bound) else function
    if not isinstance(inner, Function):
        return None
    parameters = inner.node.args
    if parameters.vararg or parameters.defaults or parameters.kwonlyargs:
        return None
    return len(parameters.posonlyargs) + len(parameters.args) - (inner is not function)


def _yields(node: ast.AST) -> bool:
    """Whether a function is a generator: a yield of its own, not of a function within it."""
    if isinstance(node, ast.Lambda):
        return False
    waiting = list(node.body)  # type: ignore[attr-defined]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(each))
    return False
