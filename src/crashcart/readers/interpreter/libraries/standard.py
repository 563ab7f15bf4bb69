"""The standard library, as far as training programs decide things with it: the environment, the command line, dataclasses, functools."""

from __future__ import annotations

import ast
import os
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from crashcart.documents import DocumentError, load_json
from crashcart.model import Fact
from crashcart.numbers import bound_number, to_int
from crashcart.readers.interpreter.intervals import mapped
from crashcart.readers.interpreter.libraries import attributes, models
from crashcart.readers.interpreter.libraries.builtin_functions import known_range
from crashcart.readers.interpreter.libraries.field_types import defaulted, evaluate_annotation, field_table, fields_in
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE
from crashcart.readers.interpreter.values import (
    Class,
    Constant,
    Container,
    Function,
    Instance,
    Library,
    Partial,
    PerRank,
    Result,
    Unknown,
    Value,
    constant_of,
    hashable,
    join,
    origins_of,
    unknown_from,
)

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_MOST_NUMBERS = 64
_ALIKE = 0.75  # how much a name is like that of a module of the program, so that no library is meant
_HEAD = re.compile(
    r"[-+]{0,2}[A-Za-z_][\w.-]{0,200}="
)  # what stands before the value in a word: ``--data=``, ``data.path=``
_MOST_ARGUMENTS = 255
_RANKS = {
    "RANK",
    "LOCAL_RANK",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_RANK",
    "GROUP_RANK",
    "NODE_RANK",
}
_WORLD = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_NPROCS"}
_MODELS_WITH_FIELDS = (
    "pydantic.BaseModel",
    "pydantic.BaseSettings",
    "pydantic_settings.BaseSettings",
    "typing.NamedTuple",
    "BaseModel",
    "tap.Tap",
    "chz.chz",
)


# ---- the environment and the command line


def variable(interpreter: Interpreter, name: object, default: Value | None, *, must: bool = False) -> Value:
    """A variable of the environment, as the launch and the launcher set it."""
    own = interpreter.store.get("os.environ", ("item", name))
    if isinstance(own, Value):
        return own
    launch = interpreter.launch
    fact = launch.environment.get(str(name))
    if fact is not None:
        return Constant(str(fact.value), (fact,), direct=True)
    if launch.sets_ranks and name in {"RANK", "LOCAL_RANK"}:
        return Constant("0") if launch.ranks == 1 else PerRank(Constant("0"), Constant("1"))
    if launch.sets_ranks and name == "WORLD_SIZE":
        return Constant(str(launch.ranks), launch.rank_facts) if launch.ranks is not None else Unknown(kind="world_size")
    if name in _RANKS and launch.ranks != 1:
        value: Value = PerRank(Constant("0"), Constant("1"))
        return (
            value
            if launch.ranks is not None and default is None
            else join(default, value)
            if default is not None and launch.ranks is None
            else value
        )
    if name in _WORLD and launch.ranks is None:
        return Unknown(kind="world_size")
    if name in _WORLD and launch.ranks != 1:
        return Constant(str(launch.ranks), launch.rank_facts)
    if default is not None and launch.program is not None and name in _RANKS | _WORLD:
        return default  # a single process that nobody numbers
    is_set_elsewhere = str(name) in {*launch.variables, *os.environ}  # a set: os.environ encodes what it is asked for
    if launch.program is not None and isinstance(default, Constant) and default.value is not None and not is_set_elsewhere:
        return default  # a variable that the launch does not set
    return join(default, Unknown(kind=f"environment:{name}")) if default is not None else Unknown(kind=f"environment:{name}")


@models("os.environ[]")
def environment_item(interpreter: Interpreter, _owner: Value, key: Value, _node: ast.AST) -> Value:
    """``os.environ["RANK"]``."""
    return variable(interpreter, constant_of(hashable(key)), None, must=True)


@models("os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop")
def environment_get(interpreter: Interpreter, call: Call) -> Value:
    """``os.environ.get("RANK", 0)``."""
    name, default = constant_of(call.argument(0)), call.argument(1, "default", NONE)
    value = variable(interpreter, name, default)
    if call.method == "setdefault" and isinstance(name, str):
        interpreter.store.set("os.environ", ("item", name), value)
    return value


@models("in os.environ")
def in_environment(interpreter: Interpreter, _owner: Value, key: Value) -> bool | None:
    """Whether a variable is set."""
    name, launch = constant_of(key), interpreter.launch
    if isinstance(interpreter.store.get("os.environ", ("item", name)), Value) or name in launch.environment:
        return True
    if name in {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} and launch.sets_ranks:
        return True
    if name in {"RANK", "WORLD_SIZE", "LOCAL_RANK"} and launch.program is not None and launch.ranks == 1:
        return False
    return None


@attributes("sys.argv")
def command_line(interpreter: Interpreter, _owner: Value) -> Value:
    """The words of the launch, as the program finds them."""
    known = interpreter.store.get("sys", "argv")
    if isinstance(known, Value):
        return known
    launch = interpreter.launch
    words: list[Value] = [Constant(interpreter.modules.entry)]
    if launch.arguments is None and launch.config:
        words.append(Constant(launch.config))
    for number, (text, is_known) in enumerate(launch.arguments or (), 1):
        fact = launch.flags.get(text.partition("=")[0]) if "=" in text else None
        if fact is None and launch.program is not None and not text.startswith("-"):
            fact = Fact(f"sys.argv[{number}]", text, launch.program.evidence, "flag", f"sys.argv[{number}]")
        origins = (fact,) if fact is not None else ()
        words.append(Constant(text, origins, direct=True) if is_known else _partly_known(text))
    made = interpreter.container("list", words, is_open=launch.arguments is None)
    interpreter.store.set("sys", "argv", made)
    return made


def _partly_known(word: str) -> Value:
    """A word of which the shell knows a part: ``--data=$1/train`` is a flag with an unknown value."""
    head = _HEAD.match(word)
    return Result("text", data=[Constant(head[0]), Unknown()]) if head is not None else Unknown()


@models("sys.exit", "exit", "quit", "os._exit", "os.abort", "os.execv", "os.execvp", "os.execve")
def leave(_interpreter: Interpreter, call: Call) -> Value:
    """The program ends here."""
    return Result(call.name, call)


@models(
    "time.time",
    "time.perf_counter",
    "time.monotonic",
    "datetime.datetime.now",
    "time.strftime",
    "time.time_ns",
    "datetime.datetime.today",
    "datetime.date.today",
)
def clock(_interpreter: Interpreter, _call: Call) -> Value:
    """A matter of the hour."""
    return Unknown(frozenset({"time"}))


@models(
    "random.random",
    "random.randint",
    "random.choice",
    "numpy.random.randint",
    "numpy.random.rand",
    "random.uniform",
    "numpy.random.choice",
    "numpy.random.random",
    "numpy.random.uniform",
    "random.randrange",
    "torch.randint",
    *(
        f"{maker}.{draw}"
        for maker in ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState")
        for draw in ("random", "randint", "integers", "uniform", "choice", "randrange", "rand")
    ),
)
def chance(interpreter: Interpreter, call: Call) -> Value:
    """A matter of chance, within bounds."""
    items, complete = interpreter.listed(call.arguments[0]) if call.method == "choice" and call.arguments else ([], False)
    made = unknown_from(*call.arguments, *items, add=("random",))
    made.kind = call.name
    made.bounds = _drawn_between(call, items if complete else [])
    if made.bounds is not None and made.bounds[0] == made.bounds[1]:
        return Constant(made.bounds[0], made.origins)
    low, high = (call.argument(0), call.argument(1)) if len(call.arguments) > 1 else (Constant(0), call.argument(0))
    made.bound = Result("bounds", call, data=(low, high))
    return made


def _drawn_between(call: Call, items: list[Value]) -> tuple[float, float] | None:
    """The bounds of a whole number that is drawn, as far as they are settings or numbers of the code."""
    numbers = [constant_of(item) for item in items]
    if numbers and all(type(number) is int for number in numbers):
        return min(numbers), max(numbers)
    if call.method not in {"randint", "randrange"} or not call.arguments:
        return None
    first, second = constant_of(call.argument(0)), constant_of(call.argument(1))
    least, end = (first, second) if type(second) is int else (0, first)
    if type(least) is not int or type(end) is not int:
        return None
    greatest = end if call.name == "random.randint" else end - 1
    return (least, greatest) if least <= greatest else None


@models("numpy.arange")
def number_range(interpreter: Interpreter, call: Call) -> Value | None:
    """The numbers of a short range, as a list."""
    numbers = known_range(call.arguments)
    if numbers is None or call.keywords:
        return None
    if len(numbers) > _MOST_NUMBERS:
        return None
    return interpreter.container("list", [Constant(number, origins_of(*call.arguments)) for number in numbers], call.node)


@models("?.astype")
def cast_number(_interpreter: Interpreter, call: Call) -> Value | None:
    """A number as another type."""
    receiver, kind = call.receiver, call.argument(0, "dtype")
    if not isinstance(kind, Library) or kind.name not in {"int", "numpy.int64", "numpy.int32"} or receiver is None:
        return None
    if isinstance(receiver, Constant) and type(receiver.value) in {int, float}:
        return Constant(to_int(receiver.value, 0), receiver.origins, source=receiver.source, node=receiver.node)
    return mapped(int, receiver)


@models(
    "sys.platform",
    "platform.system",
    "os.cpu_count",
    "multiprocessing.cpu_count",
    "len.os.sched_getaffinity",
    "torch.cuda.device_count",
    "socket.gethostname",
    "psutil.cpu_count",
)
def machine(interpreter: Interpreter, call: Call) -> Value:
    """A matter of the machine; of its cards those count that the launch lets the program see."""
    visible = interpreter.launch.environment.get("CUDA_VISIBLE_DEVICES")
    if call.name == "torch.cuda.device_count" and visible is not None and type(visible.value) in {int, str}:
        return Constant(len([card for card in str(visible.value).split(",") if card.strip()]), (visible,))
    return Unknown(kind=call.name)


@models("os.getpid", "multiprocessing.current_process", "threading.get_ident")
def process_number(interpreter: Interpreter, call: Call) -> Value:
    """The process that asks: a worker of a loader is another one than the training."""
    if call.name != "os.getpid":
        return Unknown(kind=call.name)
    worker = next((region.value for region in interpreter.region.above() if region.kind == "worker"), None)
    return Result("process number", call, data=worker)


# ---- functions


@models("functools.partial")
def partial(interpreter: Interpreter, call: Call) -> Value:
    """A function with some of its arguments."""
    if not call.arguments:
        return Unknown()
    inner, arguments, keywords = call.arguments[0], list(call.arguments[1:]), dict(call.keywords)
    function = inner
    if isinstance(inner, Partial):  # one of both, as Python makes it
        function, arguments, keywords = inner.function, [*inner.arguments, *arguments], {**inner.keywords, **keywords}
    return Partial(function, arguments, keywords) if len(arguments) <= _MOST_ARGUMENTS else Unknown()


@models("functools.partialmethod")
def partial_method(_interpreter: Interpreter, call: Call) -> Value:
    """A method with some of its arguments."""
    return Partial(call.arguments[0], list(call.arguments[1:]), dict(call.keywords)) if call.arguments else Unknown()


@models(
    "functools.wraps",
    "functools.lru_cache",
    "functools.cache",
    "functools.singledispatch",
    "contextlib.contextmanager",
    "staticmethod",
    "classmethod",
    "property",
    "torch.jit.ignore",
    "abc.abstractmethod",
    "atexit.register",
    "typing.overload",
    "typing.no_type_check",
)
def same_function(_interpreter: Interpreter, call: Call) -> Value:
    """What is called with a function and gives it back; with settings it is a decorator."""
    first = call.argument(0)
    if isinstance(first, (Function, Partial)) and call.name != "functools.wraps":
        if isinstance(first, Function) and call.name in {"staticmethod", "classmethod", "property"}:
            first.kind = call.name
        return first
    return Result("decorator", call, data=call.name)


@models("decorator.__call__")
def apply_decorator(_interpreter: Interpreter, call: Call) -> Value:
    """The function behind the decorator."""
    return call.argument(0) or Unknown()


@models("functools.reduce")
def reduce(interpreter: Interpreter, call: Call) -> Value:
    """A function over a short known list."""
    function, items = call.argument(0), call.argument(1)
    values, complete = interpreter.listed(items) if items is not None else ([], False)
    if not complete or function is None or not 0 < len(values) <= 12:
        return unknown_from(items)
    start = call.argument(2)
    result = start if start is not None else values.pop(0)
    for value in values:
        result = interpreter.call(function, [result, value], {}, call.node)
    return result


@models("threading.Thread", "multiprocessing.Process", "threading.Timer", "torch.multiprocessing.Process")
def thread(interpreter: Interpreter, call: Call) -> Value:
    """A thread or process; what it runs is followed when it is started."""
    return Result(call.name, call, data=None)


@models(
    "threading.Thread.start",
    "multiprocessing.Process.start",
    "torch.multiprocessing.Process.start",
    "threading.Timer.start",
    "threading.Thread.run",
)
def start_thread(interpreter: Interpreter, call: Call) -> Value:
    """The target of a thread runs beside the program."""
    made = call.receiver
    if isinstance(made, Result):
        target = made.argument(1, "target") or made.argument(1, "function")
        given = made.argument(3, "args")
        arguments = interpreter.listed(given)[0] if given is not None else []
        if target is not None and not isinstance(target, Constant):
            interpreter.call_back(target, arguments, call.node, kind="thread", owner=made)
    elif isinstance(made, Instance):
        with interpreter.inside("thread", call.node, value=made):
            interpreter.call_method(made, "run", [], {}, call.node)
    return NONE


@models("concurrent.futures.ThreadPoolExecutor.submit", "concurrent.futures.ProcessPoolExecutor.submit")
def submit(interpreter: Interpreter, call: Call) -> Value:
    """A function that runs beside the program."""
    future = Result("concurrent.futures.Future", call)
    if call.arguments:
        interpreter.call_back(call.arguments[0], list(call.arguments[1:]), call.node, kind="thread", owner=future)
    return future


@models("concurrent.futures.Future.done", "threading.Thread.is_alive", "multiprocessing.Process.is_alive")
def is_done(_interpreter: Interpreter, _call: Call) -> Value:
    """Whether something beside the program has ended: who asks first does not wait."""
    return Unknown(frozenset({"done"}))


@models("asyncio.run", "asyncio.get_event_loop.run_until_complete")
def run_coroutine(_interpreter: Interpreter, call: Call) -> Value:
    """What a coroutine gives."""
    return call.argument(0) or Unknown()


@models("contextlib.nullcontext", "contextlib.suppress", "contextlib.ExitStack", "contextlib.redirect_stdout")
def context(_interpreter: Interpreter, call: Call) -> Value:
    """A context that does nothing to what is followed."""
    return Result(call.name, call)


@models("importlib.import_module", "__import__")
def import_by_name(interpreter: Interpreter, call: Call) -> Value:
    """A module by a name that is known."""
    name = constant_of(call.argument(0))
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        copied = _file_copied_before(interpreter)
        if copied is not None:
            module = interpreter.import_file(copied, "(copy)")
            return module if module is not None else Unknown()
        interpreter.imports_unseen = True
        interpreter.unknown_imports += 1
        return Unknown()
    close = _module_meant(interpreter, name)
    if close is not None:
        says = f"No module named {name!r}"
        return interpreter.fail(call.node, "ModuleNotFoundError", says, call.arguments[0], choices=close)
    return interpreter.import_module(name)


def _file_copied_before(interpreter: Interpreter) -> str | None:
    """The file of the program that a function copies to a name of its own before it imports it, as loaders of configs in Python do."""
    function = interpreter.region.above()
    around = next((region for region in function if region.kind == "call"), None)
    copies = interpreter.trace.named("shutil.copyfile", "shutil.copy", "shutil.copy2") if around is not None else []
    last = next((copy for copy in reversed(copies) if around is not None and around.holds(copy.region)), None)
    from crashcart.readers.interpreter.libraries.config_files import find_config
    from crashcart.readers.interpreter.libraries.texts_and_paths import path_text

    path = path_text(last.argument(0, "src")) if last is not None else None
    return find_config(interpreter, path) if path is not None and path.endswith(".py") else None


def _module_meant(interpreter: Interpreter, name: str) -> tuple[str, ...] | None:
    """The modules of the program that a name might mean which stands for none of them; None where it may be one of a library."""
    modules, package = interpreter.modules, name.rpartition(".")[0]
    if modules.find(name) is not None or (package and modules.find(package) is None):
        return None
    if package:
        return tuple(f"{package}.{each}" for each in modules.names_of(package))
    return tuple(get_close_matches(name, modules.names_of(""), n=3, cutoff=_ALIKE)) or None


@models("sys.path.append", "sys.path.insert", "sys.path.extend")
def look_also_in(interpreter: Interpreter, call: Call) -> Value:
    """Modules are looked for in one more folder, or in several."""
    from crashcart.readers.interpreter.libraries.texts_and_paths import path_text

    given = call.argument(1 if call.method == "insert" else 0)
    for value in interpreter.listed(given)[0] if isinstance(given, Container) else [given]:
        path = path_text(value) if value is not None else None
        if path is not None and not os.path.isabs(path):
            interpreter.modules.look_in(os.path.normpath(path), first=call.method == "insert")
    return NONE


@models("runpy.run_path")
def run_file(interpreter: Interpreter, call: Call) -> Value:
    """The names of a Python file that is run, such as a config."""
    path = constant_of(call.argument(0, "path_name"))
    source = interpreter.modules.source(path) if isinstance(path, str) else None
    module = interpreter.import_file(path, "<run_path>") if source is not None and isinstance(path, str) else None
    if module is None:
        return interpreter.container("dict", {}, call.node, is_open=True)
    names = interpreter.names.get(module, {})
    content = {name: value for name in names if isinstance(value := interpreter.store.get(module, name), Value)}
    return interpreter.container("dict", content, call.node)


@models("ast.literal_eval")
def literal(interpreter: Interpreter, call: Call) -> Value | None:
    """A text that is a value."""
    text = call.argument(0)
    if not isinstance(text, Constant) or not isinstance(text.value, str) or len(text.value) > 2000:
        return None
    try:
        plain = ast.literal_eval(text.value) if call.method == "literal_eval" else load_json(text.value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, DocumentError) as problem:
        interpreter.fail(call.node, type(problem).__name__, str(problem), text)
        return Unknown(origins=text.origins)
    return from_plain(interpreter, plain, text)


def from_plain(interpreter: Interpreter, plain: Any, origin: Value, depth: int = 8) -> Value:  # noqa: ANN401 - data
    """Plain data as values; all of it comes from one setting."""
    if isinstance(plain, dict) and depth:
        return interpreter.container(
            "dict",
            {
                key: from_plain(interpreter, value, origin, depth - 1)
                for key, value in plain.items()
                if isinstance(key, (str, int, float, bool, type(None)))
            },
        )
    if isinstance(plain, (list, tuple, set)) and depth:
        kind = type(plain).__name__
        return interpreter.container(kind, [from_plain(interpreter, value, origin, depth - 1) for value in plain])
    if isinstance(plain, (str, int, float, bool, type(None), bytes)):
        return Constant(bound_number(plain), origin.origins, direct=isinstance(origin, Constant) and origin.direct)
    return unknown_from(origin)


# ---- dataclasses


def has_fields(cls: Class) -> bool:
    """Whether objects of a class are made of its annotated fields."""
    if any(
        name.endswith(
            ("dataclass", "dataclasses.dataclass", "attr.s", "attrs.define", "attr.dataclass", "chz.chz", "attrs.frozen")
        )
        for each in cls.lineage()
        if isinstance(each, Class)
        for name in each.decorators
    ):
        return True
    return any(
        name in _MODELS_WITH_FIELDS
        or name.endswith((".BaseModel", ".BaseSettings", "NamedTuple", ".Tap"))
        or field_table(name)
        for name in cls.library_bases()
    )


def fill_fields(
    interpreter: Interpreter, instance: Instance, arguments: list[Value], keywords: dict[str, Value], *, complete: bool
) -> None:
    """The attributes of an object of a dataclass, or the content of one that is a dictionary."""
    cls = instance.cls
    mapping = interpreter.libraries.mapping(interpreter, instance)
    if mapping is not None:
        interpreter.store.set(mapping, "open", not complete)
        for argument in arguments:
            interpreter.update(mapping, argument)
        interpreter.store.set(mapping, "items", {**interpreter.entries(mapping), **keywords})
    if not has_fields(cls):
        return
    node = cls.node
    left = list(arguments)
    _refuse_others(interpreter, instance, keywords)
    converts = any(name.endswith(("BaseModel", "BaseSettings")) for name in cls.library_bases())
    for name, given in keywords.items() if cls.library_bases() else ():  # also fields of other versions of the library
        interpreter.store.set(instance, name, given)
    for field in fields_in(interpreter, cls):
        if not field.init:
            value = field.default
            if value is None:
                continue  # set by ``__post_init__``
        elif left:
            value = left.pop(0)
        elif field.name in keywords:
            value = keywords[field.name]
        else:
            is_library = bool(field.library) and instance.call is not None
            value = defaulted(field, field.name, instance.call) if is_library else field.default  # type: ignore[arg-type]
            value = value if complete else None
        annotation = field.node.annotation if isinstance(field.node, ast.AnnAssign) else None
        if converts and value is not None and annotation is not None:
            value = _as_annotated(interpreter, value, annotation, node)
        interpreter.store.set(instance, field.name, value if value is not None else Unknown())
    if cls.is_a("TrainingArguments", "Seq2SeqTrainingArguments"):
        from crashcart.readers.interpreter.libraries.trainers import settle_training_arguments

        settle_training_arguments(interpreter, instance)
    if interpreter.call_method(instance, "__post_init__", [], {}, node) is None and cls.library_bases():
        from crashcart.readers.interpreter.libraries.enumerations import refuse_other_members

        refuse_other_members(interpreter, instance, "", instance.call.node if instance.call is not None else node)


def _refuse_others(interpreter: Interpreter, instance: Instance, keywords: dict[str, Value]) -> None:
    """A dataclass of the program's own takes its fields alone; other classes with fields may take more."""
    if instance.cls.library_bases():
        return
    names = {field.name for field in fields_in(interpreter, instance.cls) if field.init}
    name = next((name for name, value in keywords.items() if name not in names and value.origins), None)
    if name is not None and instance.call is not None and set(instance.cls.decorators) & {"dataclasses.dataclass"}:
        says = f"{instance.cls.name}.__init__() got an unexpected keyword argument '{name}'"
        interpreter.fail(instance.call.node, "TypeError", says, keywords[name])


_FIELD_DECORATORS = ("dataclasses.dataclass", "attr.s", "attrs.define", "attr.dataclass", "attrs.frozen", "chz.chz")


@models(*_FIELD_DECORATORS, *(f"{name}.__call__" for name in _FIELD_DECORATORS))
def make_dataclass(_interpreter: Interpreter, call: Call) -> Value:
    """``dataclass(Settings)`` and ``dataclass(frozen=True)(Settings)``: the class, which has fields now."""
    cls, name = call.argument(0), call.name.removesuffix(".__call__")
    if isinstance(cls, Class):
        cls.decorators = (*cls.decorators, name)
        return cls
    return Result(name, call)


def _as_annotated(interpreter: Interpreter, value: Value, annotation: ast.expr, node: ast.AST) -> Value:
    """A value as pydantic makes it of a plain annotation."""
    names = [part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)]
    kinds = [name for name in names if name in {"int", "float", "str", "bool"}]
    if len(kinds) == 1 and isinstance(value, Constant) and isinstance(value.value, str) and kinds[0] in {"int", "float"}:
        from crashcart.readers.interpreter.libraries.builtin_functions import converted

        return converted(interpreter, kinds[0], value, node)
    return value


@models("dataclasses.field", "pydantic.Field", "simple_parsing.field", "attr.ib", "attrs.field", "draccus.field")
def field(_interpreter: Interpreter, call: Call) -> Value:
    """How a field is described; read when an object is made."""
    return Result(call.name, call)


@models("dataclasses.replace")
def replace(interpreter: Interpreter, call: Call) -> Value:
    """An object with other values."""
    value = call.argument(0)
    if not isinstance(value, Instance):
        return unknown_from(value)
    made = Instance(value.cls)
    for name in interpreter.store.names(value):
        interpreter.store.set(made, name, interpreter.store.get(value, name))
    for name, given in call.keywords.items():
        interpreter.store.set(made, name, given)
    return made


@models("dataclasses.asdict", "dataclasses.astuple", "attr.asdict", "attrs.asdict")
def as_dict(interpreter: Interpreter, call: Call) -> Value:
    """The fields as a dictionary, those of dataclasses in it too."""
    value = call.argument(0)
    return _as_dict(interpreter, value) if isinstance(value, Instance) else unknown_from(value)


def _as_dict(interpreter: Interpreter, value: Instance, depth: int = 8) -> Value:
    names = [field.name for field in fields_in(interpreter, value.cls)]
    found = {}
    for name in names:
        inner = interpreter.peek(value, name) or Unknown()
        is_deep = isinstance(inner, Instance) and has_fields(inner.cls) and depth
        found[name] = _as_dict(interpreter, inner, depth - 1) if is_deep and isinstance(inner, Instance) else inner
    return interpreter.container("dict", found, value.cls.node)


@models("dataclasses.fields")
def list_fields(interpreter: Interpreter, call: Call) -> Value:
    """The fields of a dataclass, each with its name."""
    value = call.argument(0)
    cls = value.cls if isinstance(value, Instance) else value
    if not isinstance(cls, Class):
        return Unknown()
    items = [
        interpreter.container("namespace", {"name": Constant(name)}, is_open=True)
        for name in [field.name for field in fields_in(interpreter, cls)]
    ]
    return interpreter.container("list", items, call.node)


@models("dataclasses.is_dataclass")
def is_dataclass(_interpreter: Interpreter, call: Call) -> Value:
    """Whether it has fields."""
    value = call.argument(0)
    cls = value.cls if isinstance(value, Instance) else value
    return (
        (TRUE if has_fields(cls) else FALSE)
        if isinstance(cls, Class)
        else FALSE
        if isinstance(value, (Constant, Container))
        else Unknown()
    )


@models("pydantic.BaseModel.model_dump", "pydantic.BaseModel.dict")
def dump_model(interpreter: Interpreter, call: Call) -> Value:
    """The fields of a model as a dictionary."""
    value = call.receiver
    if not isinstance(value, Instance):
        return unknown_from(value)
    return _as_dict(interpreter, value)


# ---- generators


@models("@contextlib.contextmanager", "@contextlib.asynccontextmanager")
def context_manager(_interpreter: Interpreter, function: Value, _decorator: Value, _node: ast.AST) -> Value:
    """A generator function; calling it gives a generator whose body runs around the ``with``."""
    return function


@models("inspect.getfullargspec")
def argument_names(interpreter: Interpreter, call: Call) -> Value:
    """The parameters of a function of the program, with their annotations."""
    function = call.argument(0, "func")
    if not isinstance(function, Function):
        return Unknown()
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    annotations = {
        each.arg: evaluate_annotation(interpreter, each.annotation, function)
        for each in parameters
        if each.annotation is not None
    }
    names = interpreter.container("list", [Constant(each.arg) for each in parameters])
    content = {"args": names, "annotations": interpreter.container("dict", annotations)}
    return interpreter.container("namespace", content, is_open=True)


@models("typing.cast", "typing_extensions.cast")
def cast(_interpreter: Interpreter, call: Call) -> Value:
    """The value itself."""
    return call.argument(1, "val") or Unknown()
