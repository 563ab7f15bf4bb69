"""What a pickle would build, read opcode by opcode with nothing imported, called or built.

A pickle is a program for a small stack machine. Unpickling runs it; `walk` follows it with paper objects instead: a
call stays a `Built(function, arguments)`, an import a `Global`, a storage a `Persistent`. `GLOBAL os system` followed
by `REDUCE` is therefore two records in a list and never a process.

    PROTO 2  EMPTY_DICT  MARK  BINUNICODE 'epoch'  BININT1 3  SETITEMS  STOP   ->   Table([("epoch", 3)])
"""

from __future__ import annotations

import io
import pickletools
import struct
import warnings
from collections.abc import Callable, Iterator
from typing import Final

from crashcart.checkpoints.model import DamageError, Problem
from crashcart.checkpoints.paper import Built, Global, Persistent, Pickle, Table
from crashcart.numbers import to_int

# A million opcodes take about three seconds; the state of 30,000 tensors has about as many.
MAX_OPCODES: Final = 1_500_000
# Text may take four times as much in memory.
PICKLE_BYTES: Final = 16 << 20
# What the paper objects may take; those of 40,000 tensors do.
MAX_BYTES: Final = 80 << 20
# What an opcode leaves in memory, beside its argument.
_BYTES: Final = {
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_SET", "LIST", "FROZENSET", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "PERSID"), 80),
    **dict.fromkeys(("EMPTY_DICT", "DICT", "BINPERSID", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "MARK"), 120),
    **dict.fromkeys(("REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ"), 360),
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"), 200),
}


def walk(data: bytes, start: int = 0) -> Pickle:
    """Follow one pickle from `start` to its STOP; a damaged one raises DamageError."""
    stream = io.BytesIO(data)
    stream.seek(start)
    machine = _Machine()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.run(stream)
            return machine.result(stream.tell())
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error, AssertionError) as error:
        raise DamageError(Problem("broken", f"the pickle in it cannot be followed ({error})")) from error


class _Machine:
    """The stack, the marks and the memo; `run` feeds it opcodes."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.below: list[list[object]] = []
        self.memo: dict[int, object] = {}
        self.imports: dict[Global, None] = {}
        self.persistent: list[Persistent] = []
        self.calls: list[Built] = []

    def run(self, stream: io.BytesIO) -> None:
        taken = 0
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            taken += _BYTES.get(opcode.name, 16) + (len(argument) + 40 if isinstance(argument, (str, bytes)) else 0)
            if count > MAX_OPCODES or taken > MAX_BYTES:
                raise DamageError(Problem("unknown", "its pickle holds too many values to be followed"))
            _ACTIONS[opcode.name](self, argument)

    def result(self, end: int) -> Pickle:
        if self.below or len(self.stack) != 1:
            message = "values are left over at the end"
            raise ValueError(message)
        return Pickle(self.stack[0], tuple(self.imports), tuple(self.persistent), tuple(self.calls), end)

    def push(self, value: object) -> None:
        self.stack.append(value)

    def pop(self) -> object:
        return self.stack.pop()

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[object]:
        values, self.stack = self.stack, self.below.pop()
        return values

    def discard(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.since_mark()

    def remember(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def importing(self, module: object, name: object) -> Global:
        if not isinstance(module, str) or not isinstance(name, str):
            message = "an import without a name"
            raise TypeError(message)
        found = Global(module, name)
        self.imports[found] = None
        return found

    def call(self, function: object, arguments: object) -> None:
        built = Built(function, arguments)
        self.calls.append(built)
        self.push(built)

    def keep_outside(self, identity: object) -> None:
        found = Persistent(identity)
        self.persistent.append(found)
        self.push(found)

    def append(self, values: list[object]) -> None:
        target = self.stack[-1]
        if isinstance(target, list):
            target.extend(values)
        elif isinstance(target, Built):
            target.members.extend(values)
        else:
            message = "a list item without a list"
            raise TypeError(message)

    def set_items(self, values: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, (Table, Built)):
            message = "a dict item without a dict"
            raise TypeError(message)
        target.pairs.extend(_pairs(values))

    def set_state(self, state: object) -> None:
        target = self.stack[-1]
        if isinstance(target, Built):
            target.state.append(state)

    def tuple_of(self, count: int) -> None:
        values = self.stack[-count:]
        if len(values) != count:
            message = "a tuple of values that are not there"
            raise ValueError(message)
        del self.stack[-count:]
        self.push(tuple(values))


_Action = Callable[[_Machine, object], None]


def _pairs(values: list[object]) -> Iterator[tuple[object, object]]:
    return zip(values[::2], values[1::2], strict=True)


def _number(argument: object) -> int:
    return to_int(argument, -1)


def _global(machine: _Machine, argument: object) -> None:
    module, _, name = str(argument).partition(" ")
    machine.push(machine.importing(module, name))


def _stack_global(machine: _Machine, _: object) -> None:
    name, module = machine.pop(), machine.pop()
    machine.push(machine.importing(module, name))


def _reduce(machine: _Machine, _: object) -> None:
    arguments, function = machine.pop(), machine.pop()
    machine.call(function, arguments)


def _new_with_keywords(machine: _Machine, _: object) -> None:
    keywords, arguments, function = machine.pop(), machine.pop(), machine.pop()
    machine.call(function, (arguments, keywords))


def _instance(machine: _Machine, argument: object) -> None:
    module, _, name = str(argument).partition(" ")
    machine.call(machine.importing(module, name), tuple(machine.since_mark()))


def _object(machine: _Machine, _: object) -> None:
    function, *arguments = machine.since_mark()
    machine.call(function, tuple(arguments))


def _set_item(machine: _Machine, _: object) -> None:
    value, key = machine.pop(), machine.pop()
    machine.set_items([key, value])


def _extension(machine: _Machine, argument: object) -> None:
    machine.push(machine.importing("copyreg", f"extension {argument}"))


def _nothing(_machine: _Machine, _: object) -> None:
    return


def _push_argument(machine: _Machine, argument: object) -> None:
    machine.push(argument)


def _get(machine: _Machine, argument: object) -> None:
    machine.push(machine.memo[_number(argument)])


def _put(machine: _Machine, argument: object) -> None:
    machine.remember(_number(argument))


_CONSTANTS: Final = (
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 "
    "BYTEARRAY8 UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 FLOAT BINFLOAT"
)
_ACTIONS: Final[dict[str, _Action]] = {
    **dict.fromkeys(_CONSTANTS.split(), _push_argument),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), _extension),
    **dict.fromkeys(("PROTO", "FRAME", "STOP", "READONLY_BUFFER"), _nothing),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _reduce),
    "NEWOBJ_EX": _new_with_keywords,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "INST": _instance,
    "OBJ": _object,
    "SETITEM": _set_item,
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "NEXT_BUFFER": lambda machine, _: machine.push(b""),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_SET": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_DICT": lambda machine, _: machine.push(Table()),
    "MARK": lambda machine, _: machine.mark(),
    "POP": lambda machine, _: machine.discard(),
    "POP_MARK": lambda machine, _: machine.since_mark().clear(),
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "LIST": lambda machine, _: machine.push(machine.since_mark()),
    "FROZENSET": lambda machine, _: machine.push(machine.since_mark()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "DICT": lambda machine, _: machine.push(Table(list(_pairs(machine.since_mark())))),
    "APPEND": lambda machine, _: machine.append([machine.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
    "ADDITEMS": lambda machine, _: machine.append(machine.since_mark()),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "BUILD": lambda machine, _: machine.set_state(machine.pop()),
    "PERSID": lambda machine, argument: machine.keep_outside(argument),
    "BINPERSID": lambda machine, _: machine.keep_outside(machine.pop()),
}
