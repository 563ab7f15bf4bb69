"""What libraries do, as far as a training job needs it: tables and small models, looked up by full name.

A model is a function ``(interpreter, call) -> Value``, registered under the full names of what it stands for:

    @models("torch.distributed.get_rank")
    def rank(interpreter, call): ...

``?.item`` is the method ``item`` of something unknown. What has no model gives a `Result` (where the last part of its name begins with a
capital) or an unknown value made of its arguments.
"""

from __future__ import annotations

import ast
import importlib
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crashcart.errors import our_errors
from crashcart.model import NotLooked
from crashcart.readers.interpreter.libraries.waits import is_request, is_tracker
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Container,
    Function,
    Generator,
    Instance,
    Library,
    Module,
    Partial,
    PerRank,
    Result,
    Unknown,
    Value,
    constant_of,
    origins_of,
    small_tags,
    tags_of,
    unknown_from,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["Libraries", "modelled_packages", "models", "no_graph", "tested_for_finite", "wrapped_loader"]

Model = "Callable[[Interpreter, Call], Value | None]"
_MODELS: dict[str, Any] = {}
_ATTRIBUTES: dict[str, Any] = {}
_ELEMENTS: dict[str, Any] = {}
_FAMILIES = (
    "builtin_functions", "containers", "texts_and_paths", "standard", "argparse_parser", "interpolation", "config_files", "hf_parser",
    "typed_parsers", "click_parser", "hydra_config", "hyperpyyaml_config", "absl_flags", "fire_parser", "python_configs", "jsonargparse_cli", "data_files",
    "torch_library", "trainers", "openmmlab", "stable_baselines", "submitit_jobs", "enumerations",
)  # fmt: skip
# One name for what can be imported from several places.
_ALIASES = {
    "pytorch_lightning": "lightning", "lightning.pytorch": "lightning", "lightning.trainer": "lightning",
    "lightning.trainer.trainer": "lightning", "lightning_fabric": "lightning.fabric", "lightning.fabric.loggers": "lightning.loggers",
    "torch.utils.data.dataloader": "torch.utils.data", "torch.utils.data.dataset": "torch.utils.data",
    "torch.utils.data.distributed": "torch.utils.data", "torch.utils.data.sampler": "torch.utils.data",
    "torch.nn.parallel.distributed": "torch.nn.parallel", "torch.distributed.distributed_c10d": "torch.distributed",
    "torch.cuda.amp": "torch.amp", "torch.amp.grad_scaler": "torch.amp", "torch.amp.autocast_mode": "torch.amp",
    "accelerate.accelerator": "accelerate", "transformers.training_args": "transformers", "transformers.trainer": "transformers",
    "transformers.hf_argparser": "transformers", "omegaconf.omegaconf": "omegaconf", "torch.optim.adamw": "torch.optim",
    "torch.optim.adam": "torch.optim", "torch.optim.sgd": "torch.optim", "tqdm.auto": "tqdm", "tqdm.notebook": "tqdm", "tqdm.std": "tqdm",
    "tqdm.autonotebook": "tqdm", "deepspeed.runtime": "deepspeed", "simple_parsing.helpers": "simple_parsing",
    "simple_parsing.helpers.fields": "simple_parsing", "hydra.core.config_store.ConfigStore.instance": "hydra.core.config_store.ConfigStore.instance",
    "ml_collections.config_dict": "ml_collections", "ml_collections.config_flags.config_flags": "ml_collections.config_flags",
    "mmengine.runner.runner": "mmengine.runner", "draccus.choice_types": "draccus", "draccus.argparsing": "draccus",
    "trl.commands.cli_utils": "trl", "trl.trainer.utils": "trl", "transformers.training_args_seq2seq": "transformers", "easydict": "easydict",
}  # fmt: skip
_NO_GRAPH = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")
_RANK_ZERO = (
    "rank_zero_only",
    "on_main_process",
    "on_local_main_process",
    "rank_zero_experiment",
    "main_process_only",
    "master_only",
)


def models(*names: str) -> Callable[[Any], Any]:
    """Register a model under full names."""

    def register(function: Any) -> Any:  # noqa: ANN401 - a model
        for name in names:
            _MODELS[name] = function
        return function

    return register


def attributes(*names: str) -> Callable[[Any], Any]:
    """Register what an attribute of a library object stands for: ``(interpreter, owner) -> Value``."""

    def register(function: Any) -> Any:  # noqa: ANN401 - a model
        for name in names:
            _ATTRIBUTES[name] = function
        return function

    return register


def elements(*names: str) -> Callable[[Any], Any]:
    """Register what a loop over a result gets: ``(interpreter, result, node) -> Value``."""

    def register(function: Any) -> Any:  # noqa: ANN401 - a model
        for name in names:
            _ELEMENTS[name] = function
        return function

    return register


class _Objects:
    """Names of results that are objects: they are true and not None."""

    def __contains__(self, name: str) -> bool:
        last = name.rpartition(".")[2]
        return last[:1].isupper() or name in _OBJECT_NAMES


_DICTS = {"dict", "collections.OrderedDict", "collections.UserDict", "easydict.EasyDict", "addict.Dict"}
_OBJECT_NAMES = {"text", "range", "open", "slice", "enumerate", "zip", "wandb.init"}
_BARE_METHODS = frozenset(
    [
        "get",
        "set",
        "items",
        "keys",
        "values",
        "update",
        "append",
        "add",
        "pop",
        "close",
        "open",
        "read",
        "write",
        "start",
        "stop",
        "run",
        "join",
        "put",
        "send",
        "wait",
        "step",
        "train",
        "eval",
        "forward",
        "backward",
        "zero_grad",
        "state_dict",
        "load_state_dict",
        "parameters",
        "to",
        "cuda",
        "cpu",
        "item",
        "detach",
        "log",
        "info",
        "print",
        "debug",
        "format",
        "copy",
        "reset",
        "size",
        "shape",
        "mean",
        "sum",
        "view",
        "reshape",
        "numpy",
        "tolist",
        "register",
        "encode",
        "decode",
        "save",
        "load",
        "name",
        "index",
        "count",
        "sort",
        "split",
        "strip",
        "replace",
        "setup",
        "build",
        "main",
        "init",
    ]
)


class Libraries:
    """Answers what the interpreter asks about everything that is not the program's own."""

    OBJECTS = _Objects()
    ENDS = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort", "never", "os.execv", "os.execvp", "os.execve"})
    CONFIG_METHODS = frozenset(
        [
            "get",
            "items",
            "keys",
            "values",
            "pop",
            "update",
            "copy",
            "merge_from_dict",
            "set_new_allowed",
            "lock",
            "unlock",
            "merge_from_file",
            "merge_from_list",
            "merge_from_other_cfg",
            "freeze",
            "defrost",
            "setdefault",
            "clone",
            "dump",
            "to_dict",
            "pretty_text",
            "is_frozen",
            "get_default",
            "_get_kwargs",
            "__dict__",
        ]
    )

    def __init__(self) -> None:
        _load()
        self.builtins: dict[str, Value] = {}

    def full_name(self, name: str) -> str:
        """One name for what libraries export from several places."""
        return _full_name(name)

    def builtin(self, name: str) -> Value:
        """A name that the program does not define."""
        found = self.builtins.get(name)
        if found is None:
            found = self.builtins[name] = Library(name)
        return found

    # ---- calls

    def answer(self, interpreter: Interpreter, call: Call) -> Value:
        """What a call of a library gives."""
        if call.name.startswith(_NUMERIC):
            from crashcart.readers.interpreter.libraries.torch_library import check_numbers

            check_numbers(interpreter, call)
        model = _MODELS.get(call.name)
        receiver = call.receiver
        decorating = _MODELS.get(f"@{call.name.removesuffix('.__call__')}") if call.name.endswith(".__call__") else None
        if model is None and decorating is not None and receiver is not None and len(call.arguments) == 1:
            made = decorating(interpreter, call.arguments[0], receiver, call.node)  # a decorator called by hand
            return made if made is not None else call.arguments[0]
        if model is None and call.method in _RANK_ZERO and call.arguments and isinstance(call.arguments[0], Function):
            function = call.arguments[0]  # ``rank_zero_only(function)``
            function.decorators = (*function.decorators, call.name)
            return function
        if model is None and receiver is not None:
            model = _MODELS.get(f"?.{call.method}")
        if model is not None:
            result = _asked(interpreter, call.name, model, call)
            if result is not None:
                return result  # type: ignore[no-any-return]
        if model is None and "add" in call.method and (parser := _parser_in(call)) is not None:
            parser.data.known = False  # it gets flags that are not seen
            return parser
        if call.name.startswith("?.") or call.name == "?":
            found = self._guess(interpreter, call)
            if found is not None:
                return found
        self._call_back(interpreter, call)
        if call.method in {"__call__", "?"}:
            _note_step(interpreter, call)
        from crashcart.readers.interpreter.libraries.data_files import ARRAYS, ask_handle, handles_of, read_whole_table

        if model is None and handles_of(receiver):
            asked = ask_handle(interpreter, call)
            if asked is not None:
                return asked
        values = (*call.arguments, *call.keywords.values())
        if call.name in ARRAYS and handles_of(call.argument(0)):
            return read_whole_table(interpreter, call.arguments[0], call.node)
        tags = tags_of(receiver, *self._spread_out(interpreter, values))
        tags -= handles_of(Unknown(tags))
        if is_tracker(call.name) or is_request(call.name):
            tags |= {"server"}
        if call.method in _REDUCING:
            tags = small_tags(tags) - ({"graph", "tensor"} if call.method in _WHOLE_NUMBERS else frozenset())
        if "graph" in tags and (call.method in _NOT_DIFFERENTIABLE or no_graph(interpreter)):
            tags -= {"graph"}
        if call.method.endswith("DataLoader") and not call.name.startswith("?"):  # of a library that has one of its own
            return Result("torch.utils.data.DataLoader", call, tags - {"graph"}, origins_of(*values))
        if call.name.startswith("?"):
            return self._answer_of_unknown(interpreter, call, tags)
        if call.method == "__call__" and call.name.startswith("torch.nn."):
            return Unknown(tags | ({"tensor"} if no_graph(interpreter) else {"tensor", "graph"}), origins_of(*values))
        if call.method[:1].isupper() or call.name == "open":
            return Result(call.name, call, tags, origins_of(*values))
        if call.name.startswith("torch.") and not call.name.startswith(_NO_TENSORS):
            tags |= {"tensor"}
        return Result(call.name, call, tags, origins_of(*values))

    def lose(self, values: Iterable[Value]) -> None:
        """Values go where nobody follows: a parser among them may get any flag."""
        for value in values:
            if isinstance(value, Result) and hasattr(value.data, "known"):
                value.data.known = False

    def records_no_graph(self, interpreter: Interpreter) -> bool:
        """Whether torch records no graph here."""
        return no_graph(interpreter)

    def _spread_out(self, interpreter: Interpreter, values: Iterable[Value]) -> list[Value]:
        """Values, and what lists and dictionaries among them hold, as far as there are not too many."""
        found: list[Value] = []
        seen: dict[int, int] = {}
        waiting = [(value, _SPREAD_LEVELS) for value in values][:_MOST_SPREAD_IN_ALL]
        left = _MOST_SPREAD_IN_ALL
        while waiting and left:
            left -= 1
            value, levels = waiting.pop()
            if not (isinstance(value, Container) and levels):
                found.append(value)
            elif seen.get(id(value), 0) < levels:
                seen[id(value)] = levels
                content = interpreter.items(value)
                items = [*content.values(), *self.others(interpreter, value)] if isinstance(content, dict) else content
                waiting += [(item, levels - 1) for item in list(items)[:_MOST_SPREAD]]
        return found

    def others(self, interpreter: Interpreter, container: Container) -> list[Value]:
        """What a dictionary holds under keys that are not known."""
        value = interpreter.store.get(container, "others")
        return [value] if isinstance(value, Value) else []

    def _answer_of_unknown(self, interpreter: Interpreter, call: Call, tags: frozenset[str]) -> Value:
        """What a call of something unknown gives: with a graph where its results were seen to go backward, as a model's do."""
        receiver = call.receiver
        origins = origins_of(receiver, *call.arguments, *call.keywords.values())
        if isinstance(receiver, (Unknown, Bound)) and _may_be_model(call, tags):
            number = next(
                (at for at, (value, name) in enumerate(interpreter.callables) if value is receiver and name == call.name),
                None,
            )
            if number is None:
                number = len(interpreter.callables)
                interpreter.callables.append((receiver, call.name))
            tags |= {f"called:{number}"}
            if number in interpreter.models and not no_graph(interpreter):
                tags |= {"tensor", "graph"}
        return Unknown(tags, origins)

    def is_modelled(self, value: Result) -> bool:
        """Whether what a call gave is known of its library: something is answered for its call, its parts or its attributes."""
        return (
            value.name in _MODELS
            or value.name in _ELEMENTS
            or value.name.partition(".")[0] in {"torch", "numpy", "builtins"}
        )

    def is_lasting(self, value: Value) -> bool:
        """Whether something stays what it is when a library wraps it: a model, an optimizer, a loader."""
        if isinstance(value, Instance):
            return value.cls.is_a("Module", "Optimizer", "DataLoader", "LightningModule")
        return isinstance(value, Result) and value.name.startswith(("torch.optim.", "torch.utils.data.", "torch.nn."))

    def named_by(self, interpreter: Interpreter, values: Iterable[Value]) -> Value | None:
        """What the only text among some values names: ``"package.module.Class"`` of the program, or of torch."""
        names = [
            value for value in values if isinstance(value, Constant) and isinstance(value.value, str) and "." in value.value
        ]
        if len(names) != 1:
            return None
        from crashcart.readers.interpreter.libraries.hydra_config import resolve_target

        found = resolve_target(interpreter, names[0])
        is_torch = isinstance(found, Library) and found.name.startswith("torch.")
        return found if isinstance(found, (Class, Function)) or is_torch else None

    def all_names(self, interpreter: Interpreter, module: Module) -> tuple[str, ...]:
        """The names of a module; none where it may have others: of a library, of another file, or made while it runs."""
        if module.source is None or module.source.path.endswith("__init__.py") or interpreter.imports_unseen:
            return ()
        for node in ast.walk(module.source.tree):
            is_star = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
            makes = isinstance(node, ast.Name) and node.id in {"globals", "setattr", "exec", "__dict__"}
            if is_star or makes or (isinstance(node, ast.FunctionDef) and node.name == "__getattr__"):
                return ()
        return tuple(interpreter.names.get(module, ()))

    def mapping(self, interpreter: Interpreter, instance: Instance) -> Container | None:
        """The content of an object whose class inherits from ``dict``."""
        if not any(name in _DICTS for name in instance.cls.library_bases()):
            return None
        known = interpreter.store.get(instance, "(mapping)")
        if known is None:
            known = interpreter.container("config", {}, is_open=True)
            interpreter.store.set(instance, "(mapping)", known)
        return known  # type: ignore[no-any-return]

    def _guess(self, interpreter: Interpreter, call: Call) -> Value | None:
        """A method of something unknown that few classes of the program define: it may be one of these."""
        method = call.method
        if method in _BARE_METHODS or method.startswith("__") or interpreter.quiet:
            return None
        owners = [
            cls for cls in interpreter.classes_with(method) if isinstance(interpreter.store.get(cls, method), Function)
        ]
        if not 1 <= len(owners) <= 2:
            return None
        result: Value | None = None
        for cls in owners:
            function = interpreter.store.get(cls, method)
            if interpreter.repeats.get(function.node, 0) > 2:
                continue
            receiver = [] if function.kind == "staticmethod" else [_some_instance(interpreter, cls)]
            with interpreter.inside("maybe", call.node, call=call):
                result = interpreter.call_function(function, [*receiver, *call.arguments], call.keywords, call.node)
        return result

    def _call_back(self, interpreter: Interpreter, call: Call) -> None:
        """Functions of the program that are handed to a library may be called by it; one that it decorates, when it is called itself."""
        for value in (*call.arguments, *call.keywords.values()):
            function = value
            while isinstance(function, (Bound, Partial)):
                function = function.function
            is_followed = isinstance(function, Function) and (
                interpreter.repeats.get(function.node, 0) or call.node in getattr(function.node, "decorator_list", ())
            )
            if isinstance(function, Function) and not is_followed:
                interpreter.call_back(value, [], call.node)

    def call_instance(
        self, interpreter: Interpreter, instance: Instance, arguments: list[Value], keywords: dict[str, Value], node: ast.AST, *, complete: bool
    ) -> Value:  # fmt: skip
        """A call of an object whose class defines no ``__call__``: a module of torch, mostly."""
        cls = instance.cls
        forward = interpreter._find_method(cls, "forward")
        graph = () if no_graph(interpreter) else ("graph",)
        if forward is None or _is_followed_enough(interpreter, forward):
            known = _earlier_result(interpreter, forward) if forward is not None else None
            call = interpreter.record(
                _call_type(), node, f"{cls.name}.__call__", arguments, keywords, receiver=instance, complete=complete
            )
            call.result = known if known is not None else unknown_from(*arguments, add=("tensor", *graph))
            return call.result  # type: ignore[no-any-return]
        result = interpreter.call_function(forward, [instance, *arguments], keywords, node, complete=complete)
        if isinstance(result, (Container, Instance)) and not no_graph(interpreter):
            content = {name: interpreter.store.get(result, name) for name in interpreter.store.names(result)}
            interpreter.forward_results[id(forward.node)] = (result, content)
        if isinstance(result, (Container, Instance)):
            return result
        return unknown_from(result, *arguments, add=("tensor", *graph))

    def bound_default(self, interpreter: Interpreter, function: Function, name: str, node: ast.AST) -> Value | None:
        """What a library gives for a parameter that a call leaves out: a binding of gin."""
        if interpreter.store.get("gin", "(bindings)") is None:
            return None
        from crashcart.readers.interpreter.libraries.python_configs import bound_default, gin_given

        found = bound_default(interpreter, function, name)
        return gin_given(interpreter, found, node) if found is not None else None

    def instance(
        self, interpreter: Interpreter, cls: Class, arguments: list[Value], keywords: dict[str, Value], call: Call
    ) -> Value | None:
        """An object of a class that a library makes in its own way: a field of an enumeration, a named tuple."""
        model = next((_MODELS.get(f"{name}()") for name in cls.library_bases() if f"{name}()" in _MODELS), None)
        return _asked(interpreter, cls.name, model, cls, arguments, keywords, call) if model is not None else None

    def initialise(
        self,
        interpreter: Interpreter,
        instance: Instance,
        arguments: list[Value],
        keywords: dict[str, Value],
        *,
        complete: bool,
    ) -> None:
        """An object of a class without ``__init__``: a loader of torch's kind, or the fields of a dataclass."""
        from crashcart.readers.interpreter.libraries.standard import fill_fields

        if instance.cls.is_a("DataLoader") and instance.call is not None:
            name = "torch.utils.data.DataLoader.__init__"
            interpreter.call_library(name, arguments, keywords, instance.call.node, receiver=instance, complete=complete)
            return
        fill_fields(interpreter, instance, arguments, keywords, complete=complete)

    @contextmanager
    def decorating(self, interpreter: Interpreter, function: Function) -> Iterator[None]:
        """Follow a function inside what its decorators do around it."""
        names = function.decorators
        if not names:
            yield
            return
        if any(name.startswith(_NO_GRAPH) for name in names):
            with interpreter.inside("with", function.node, value=Result("torch.no_grad")):
                yield
        elif any(name.rpartition(".")[2] in _RANK_ZERO for name in names) and interpreter.launch.ranks != 1:
            with interpreter.inside("rank", function.node, side="first"):
                yield
        else:
            yield

    def decorator_name(self, decorator: Value) -> str:
        """The library function that made a decorator; a cache without a bound is ``functools.cache``, however it is written."""
        if isinstance(decorator, Library) and decorator.name == "functools.lru_cache":
            return decorator.name
        if not (isinstance(decorator, Result) and decorator.name == "decorator" and isinstance(decorator.data, str)):
            return ""
        if decorator.data == "functools.lru_cache":
            bound = decorator.argument(0, "maxsize")
            return "functools.cache" if isinstance(bound, Constant) and bound.value is None else decorator.data
        return decorator.data

    def decorated(self, interpreter: Interpreter, function: Value, decorator: Value, name: str, node: ast.AST) -> Value:
        """A function behind a decorator of a library."""
        model = _MODELS.get(f"@{name}")
        if model is not None:
            result = _asked(interpreter, name, model, function, decorator, node)
            if result is not None:
                return result  # type: ignore[no-any-return]
        return function

    # ---- attributes and items

    def attribute(self, interpreter: Interpreter, owner: Value, name: str) -> Value:
        """An attribute of a library, or of what a call of one gave."""
        if isinstance(owner, Library):
            full = _full_name(f"{owner.name}.{name}")
            model = _ATTRIBUTES.get(full)
            return (_asked(interpreter, full, model, owner) if model is not None else None) or Library(full)
        own = owner.name if isinstance(owner, Result) else "function"
        if own == "absl.flags.FlagValues":
            from crashcart.readers.interpreter.libraries.absl_flags import flag_attribute

            return flag_attribute(interpreter, name)
        model = _ATTRIBUTES.get(f"{own}.{name}")
        found = _asked(interpreter, f"{own}.{name}", model, owner) if model is not None else None
        if found is not None:
            return found  # type: ignore[no-any-return]
        given = self._given(interpreter, owner, name) if isinstance(owner, Result) else None
        return given if given is not None else Bound(Library(f"{own}.{name}"), owner)

    def _given(self, interpreter: Interpreter, owner: Result, name: str) -> Value | None:
        """What an object of a library was made with under a name, as ``HParams(batch_size=64).batch_size``, unless it was changed since."""
        call = owner.call
        if call is None or name not in call.keywords or call.method[:1].islower() or self.is_modelled(owner):
            return None
        for method, calls in interpreter.trace.by_method.items():
            given = (
                [each.arguments for each in calls if each.receiver is owner and each.arguments] if method[:1] != "_" else []
            )
            if any(name in str(constant_of(value, name)) for arguments in given for value in arguments):
                return Unknown(origins=call.keywords[name].origins)
        return call.keywords[name]

    def inherited(self, interpreter: Interpreter, owner: Instance, bases: list[str], name: str) -> Value | None:
        """An attribute that an object of the program has from a class of a library."""
        for base in bases:
            model = _ATTRIBUTES.get(f"{base}.{name}")
            if model is not None:
                return _asked(interpreter, f"{base}.{name}", model, owner)  # type: ignore[no-any-return]
        return None

    def member(self, interpreter: Interpreter, cls: Class, name: str, value: Value) -> Value:
        """A name of a class as its users see it: the fields of an enumeration are objects with a value."""
        if cls.is_a(*_ENUMERATIONS) and (
            isinstance(value, (Class, Constant, Container)) or (isinstance(value, Result) and value.name == "enum.auto")
        ):
            made = interpreter.store.get(cls, ("member", name))
            if made is None:
                made = Instance(cls)
                interpreter.store.set(cls, ("member", name), made)
                interpreter.store.set(made, "value", value)
                interpreter.store.set(made, "name", Constant(name))
            return made  # type: ignore[no-any-return]
        return value

    def item(self, interpreter: Interpreter, owner: Value, key: Value, node: ast.AST) -> Value:
        """``owner[key]`` of something of a library."""
        name = owner.name if isinstance(owner, (Library, Result)) else ""
        model = _MODELS.get(f"{name}[]") if name else None
        found = _asked(interpreter, f"{name}[]", model, owner, key, node) if model is not None else None
        if found is not None:
            return found  # type: ignore[no-any-return]
        if name in _LITERALS and (choices := _plain_items(interpreter, key)) is not None:
            from crashcart.readers.interpreter.libraries.field_types import Kind

            return Result("type alias", None, data=Kind("literal", choices=choices))
        if isinstance(owner, (Class, Library)):  # ``Dataset[int]``
            return owner
        from crashcart.readers.interpreter.libraries.data_files import handle_item, handles_of

        if handles_of(owner):
            return handle_item(interpreter, owner, key, node)
        part = unknown_from(owner, key)
        if (
            isinstance(owner, Unknown)
            and owner.kind == "filled"
            and isinstance(key, Constant)
            and isinstance(key.value, slice)
        ):
            count = constant_of(owner.bound)
            part.kind, part.bound = "filled", Constant(len(range(count)[key.value])) if type(count) is int else None
        if isinstance(key, Constant) and isinstance(key.value, str):
            if isinstance(owner, Unknown) and not owner.kind:
                owner.kind = "mapping"
        else:
            part.tags = frozenset(tag for tag in part.tags if not tag.startswith("whole:"))
        return part

    def length(self, interpreter: Interpreter, value: Result, node: ast.AST) -> Value | None:
        """``len(value)`` of something of a library."""
        model = _MODELS.get(f"len({value.name})")
        return _asked(interpreter, f"len({value.name})", model, value, node) if model is not None else None

    def is_of(self, interpreter: Interpreter, value: Value, kinds: Value) -> bool | None:
        """``isinstance(value, kinds)``."""
        from crashcart.readers.interpreter.libraries.builtin_functions import is_of_any

        return is_of_any(value, interpreter.listed(kinds)[0] if isinstance(kinds, Container) else [kinds])

    def contains(self, interpreter: Interpreter, owner: Value, key: Value) -> bool | None:
        """``key in owner``."""
        name = owner.name if isinstance(owner, (Library, Result)) else ""
        model = _MODELS.get(f"in {name}")
        return _asked(interpreter, f"in {name}", model, owner, key) if model is not None else None

    # ---- loops

    def items_of(self, interpreter: Interpreter, value: Value) -> list[Value] | None:
        """The few items of something of a library, or of an enumeration, that can be gone through one by one."""
        if isinstance(value, Class) and value.is_a(*_ENUMERATIONS):
            from crashcart.readers.interpreter.libraries.hf_parser import enum_members

            return [self.member(interpreter, value, name, each) for name, each in enum_members(interpreter, value).items()]
        model = _MODELS.get(f"list({value.name})") if isinstance(value, (Result, Library)) else None
        return _asked(interpreter, repr(value), model, value) if model is not None else None

    def element(self, interpreter: Interpreter, value: Value, node: ast.AST) -> Value:
        """What a loop over something of a library gets in a round."""
        if isinstance(value, Result):
            model = _ELEMENTS.get(value.name)
            found = _asked(interpreter, value.name, model, value, node) if model is not None else None
            if found is not None:
                return found  # type: ignore[no-any-return]
        if isinstance(value, Generator):
            found = value.collect()
            return found[0] if len(found) == 1 else unknown_from(*found)
        if (
            isinstance(value, Bound)
            and isinstance(value.function, Library)
            and value.function.name.startswith("torch.optim.")
        ):
            return Result("torch.optim.param_group", None)  # of ``optimizer.param_groups``
        inner = wrapped_loader(interpreter, value)
        if inner is not None:
            return interpreter.element(inner, node)
        return unknown_from(value, add=("loop",))

    def parts_of(self, interpreter: Interpreter, value: Value, count: int) -> list[Value] | None:
        """What several names get of something of a library."""
        model = _MODELS.get(f"parts({value.name})") if isinstance(value, Result) else None
        return _asked(interpreter, repr(value), model, value, count) if model is not None else None

    def left(self, interpreter: Interpreter, manager: Result, node: ast.AST) -> None:
        """The end of a ``with`` over something of a library."""
        model = _MODELS.get(f"exit({manager.name})")
        if model is not None:
            _asked(interpreter, f"exit({manager.name})", model, manager, node)

    # ---- containers and texts

    def extend(self, interpreter: Interpreter, container: Container, added: Value) -> None:
        """``container += added``."""
        items, complete = interpreter.listed(added)
        interpreter.store.set(container, "items", (*interpreter.items(container), *items)[:4096])
        if not complete:
            self.open_up(interpreter, container)

    def open_up(self, interpreter: Interpreter, container: Container) -> None:
        """A container may hold more than is known."""
        interpreter.store.set(container, "open", True)

    def percent(self, interpreter: Interpreter, text: Constant, given: Value) -> Value:
        """``"%s-%d" % (name, number)``."""
        from crashcart.readers.interpreter.libraries.texts_and_paths import percent_format

        return percent_format(interpreter, text, given)

    def joined_path(self, interpreter: Interpreter, parts: list[Value]) -> Value:
        """``Path / name`` and ``os.path.join``."""
        from crashcart.readers.interpreter.libraries.texts_and_paths import join_paths

        return join_paths(parts)

    def compared_with_itself(self, interpreter: Interpreter, value: Value, node: ast.AST, *, is_equal: bool) -> Value:
        """``loss != loss``, which is true for NaN alone."""
        call = interpreter.record(_call_type(), node, "math.isnan", [value], {})
        call.result = tested_for_finite(interpreter, call, "isfinite" if is_equal else "isnan", [value])
        return call.result  # type: ignore[no-any-return]

    def check_operands(self, interpreter: Interpreter, sign: str, left: Value, right: Value, node: ast.AST) -> None:
        """Arithmetic with a text from a config fails whatever the other side is."""
        for value, other in ((left, right), (right, left)):
            if not (isinstance(value, Constant) and isinstance(value.value, str) and value.origins):
                continue
            is_number = bool(other.tags & _NUMBERS) or (isinstance(other, Unknown) and other.bounds is not None)
            certain = sign in {"-", "/", "//", "**"} or (sign in {"*", "+", "<"} and is_number)
            if certain and "file" not in other.tags:
                interpreter.fail(node, "TypeError", f"{sign} needs a number, not the text {value.value!r}", value)


_ENUMERATIONS = ("Enum", "IntEnum", "StrEnum")
_NUMBERS = frozenset({"tensor", "time"})  # what is known to be one, or an array of them
_LITERALS = {"typing.Literal", "typing_extensions.Literal"}
_MOST_SPREAD = 64
_MOST_SPREAD_IN_ALL, _SPREAD_LEVELS = 4000, 3
_MOST_TAGS = 40
# Methods and functions whose results are small, whatever they are worked out of.
_REDUCING = frozenset(
    [
        "mean",
        "sum",
        "min",
        "max",
        "std",
        "var",
        "argmax",
        "argmin",
        "any",
        "all",
        "prod",
        "median",
        "norm",
        "item",
        "size",
        "dim",
        "numel",
        "__len__",
        "count_nonzero",
        "histogram",
        "nanmean",
        "nanstd",
        "quantile",
        "percentile",
        "amax",
        "amin",
        "isnan",
        "isfinite",
        "shape",
        "ndim",
        "dtype",
        "nbytes",
        "tobytes",
        "keys",
        "index",
        "nunique",
        "get_shape",
        "bincount",
        "unique",
    ]
)


# Methods and functions through which no gradient goes.
_NOT_DIFFERENTIABLE = frozenset(
    [
        "eq",
        "ne",
        "gt",
        "ge",
        "lt",
        "le",
        "argmax",
        "argmin",
        "argsort",
        "isnan",
        "isfinite",
        "isinf",
        "isclose",
        "equal",
        "allclose",
        "long",
        "int",
        "bool",
        "round",
        "floor",
        "ceil",
        "sign",
        "nonzero",
        "logical_and",
        "logical_or",
        "logical_not",
        "bincount",
        "one_hot",
        "unique",
        "multinomial",
        "bernoulli",
        "randint",
    ]
)
_WHOLE_NUMBERS = frozenset({"numel", "size", "dim", "argmax", "argmin", "__len__", "count_nonzero", "item", "nelement"})


def _may_be_model(call: Call, tags: frozenset[str]) -> bool:
    """Whether an unknown thing that is called may be a model: it is no tensor, and it gets something."""
    if len(tags) > _MOST_TAGS or not (call.arguments or call.keywords or not call.complete):
        return False
    if call.name == "?":
        return True
    known = call.receiver.tags if call.receiver is not None else frozenset()
    return call.method not in _BARE_METHODS and not known & {"tensor", "data", "graph", "loop"}


_NUMERIC = (
    "torch.optim.",
    "torch.utils.data.DataLoader",
    "torch.nn.",
    "torch.linspace",
    "torch.arange",
    "numpy.linspace",
    "numpy.arange",
    "range",
    "time.sleep",
    "transformers.TrainingArguments",
)
_NO_TENSORS = (
    "torch.distributed.",
    "torch.cuda.",
    "torch.utils.",
    "torch.backends.",
    "torch.multiprocessing.",
    "torch.save",
    "torch.load",
    "torch.manual_seed",
)


def no_graph(interpreter: Interpreter) -> bool:
    """Whether torch records no graph here."""
    return any(
        region.kind == "with" and isinstance(region.value, Result) and region.value.name.startswith(_NO_GRAPH)
        for region in interpreter.region.above()
    )


def tested_for_finite(interpreter: Interpreter, call: Call, test: str, values: Sequence[Value | None]) -> Value:
    """``isnan``, ``isinf`` or ``isfinite`` of a value: not known, unless the program is followed under an assumption."""
    if interpreter.finite_at is not None:
        return Constant(interpreter.finite_at(call.node) == (test == "isfinite"))
    tested = next((value for value in values if value is not None), None)
    return Unknown(tags_of(*values) - {"graph"} | {"finite"}, origins_of(*values), kind=test, bound=tested)


def _note_step(interpreter: Interpreter, call: Call) -> None:
    """What a library is given to call with a loss and an optimizer makes gradients and steps: ``scaler(loss, optimizer)``."""
    values = [*call.arguments, *call.keywords.values()]
    optimizer = next((value for value in values if isinstance(value, Result) and "optim" in value.name.lower()), None)
    loss = next((value for value in values if "graph" in value.tags), None)
    if optimizer is not None and loss is not None:
        interpreter.record(_call_type(), call.node, "?.backward", [], {}, receiver=loss)
        interpreter.record(_call_type(), call.node, "torch.optim.Optimizer.step", [], {}, receiver=optimizer)


def _parser_in(call: Call) -> Result | None:
    """The parser of argparse that a function of a library is given first."""
    first = call.arguments[0] if call.arguments else None
    is_parser = isinstance(first, Result) and first.name == "argparse.ArgumentParser" and hasattr(first.data, "known")
    return first if is_parser and isinstance(first, Result) else None


def wrapped_loader(interpreter: Interpreter, value: Value, depth: int = 6) -> Value | None:
    """The loader that something of an unknown library goes over: a progress bar, a prefetcher; None where it gets none."""
    first = value.call.argument(0) if isinstance(value, Result) and value.call is not None else None
    if isinstance(first, PerRank):
        first = first.first
    is_loader = isinstance(first, Result) and first.name == "torch.utils.data.DataLoader"
    if is_loader or (isinstance(first, Instance) and interpreter.store.get(first, "(loader)") is not None):
        return first
    known = isinstance(first, Result) and first.name in _ELEMENTS and depth > 0
    return first if known and first is not None and wrapped_loader(interpreter, first, depth - 1) is not None else None


def _plain_items(interpreter: Interpreter, key: Value) -> tuple[Any, ...] | None:
    """The constants between the brackets of ``Literal["a", "b"]``; None where one is not known."""
    items = interpreter.listed(key)[0] if isinstance(key, Container) else [key]
    return tuple(constant_of(item) for item in items) if all(isinstance(item, Constant) for item in items) else None


def _asked(interpreter: Interpreter, name: str, model: Any, *details: Any) -> Any:  # noqa: ANN401 - a model, its answer
    """What a model answers; an error of ours in it costs this answer and a line for the user."""
    with our_errors(f"what {name} does", lambda *problem: interpreter.modules.not_looked.append(NotLooked(*problem))):
        try:
            return model(interpreter, *details)
        except RecursionError:  # nested too deeply to be followed
            interpreter.unresolved += 1
    return None


def _call_type() -> Any:  # noqa: ANN401 - a class
    from crashcart.readers.interpreter.trace import Call

    return Call


def _is_followed_enough(interpreter: Interpreter, forward: Function) -> bool:
    """Whether a ``forward`` was followed before: a few times in quiet rounds, and once where rules see what it does."""
    if interpreter.quiet:
        return interpreter.repeats.get(forward.node, 0) > 1
    is_seen = forward.node in interpreter.seen_forwards and interpreter.repeats.get(forward.node, 0) > 1
    interpreter.seen_forwards.add(forward.node)
    return is_seen


def _earlier_result(interpreter: Interpreter, forward: Function) -> Value | None:
    """What a model gave when its ``forward`` was followed, with the content that it had: that round may have been undone since."""
    known, content = interpreter.forward_results.get(id(forward.node), (None, {}))
    for name, value in content.items():
        if interpreter.store.get(known, name) is None:
            interpreter.store.set(known, name, value)
    return known


def _some_instance(interpreter: Interpreter, cls: Class) -> Value:
    """An object of a class that the program makes somewhere, else one of which nothing is known."""
    for call in reversed(interpreter.trace.by_name.get(cls.name, ())):
        if isinstance(call.result, Instance) and call.result.cls is cls:
            return call.result
    return Instance(cls)


@lru_cache(maxsize=4096)
def _full_name(name: str) -> str:
    head = name
    while head:
        if head in _ALIASES:
            return _full_name(f"{_ALIASES[head]}{name[len(head) :]}") if _ALIASES[head] != head else name
        head = head.rpartition(".")[0]
    return name


@lru_cache(maxsize=1)
def modelled_packages() -> frozenset[str]:
    """The libraries of which something is known here: their own code is not followed."""
    _load()
    return frozenset(name.partition(".")[0].lstrip("@") for name in (*_MODELS, *_ALIASES))


@lru_cache(maxsize=1)
def _load() -> None:
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
