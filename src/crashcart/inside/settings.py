"""What the program itself made of its settings: written down when its own parser or constructor returns.

Numbers, truth values, words of a few well-known settings, and text that looks like a number where a number may be meant; of exact
built-in types only, so that no code of the program runs: no `len`, no `repr`, no resolver of OmegaConf. Parsers count where the
program calls them: launchers and libraries have their own. Each event names the line of the program that led to it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import events, our_frames, page, patching
from .mistakes import Hook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_EVENTS, _MOST_VALUES, _DEEPEST = 40, 300, 4
_MOST_FLAGS, _LONGEST = 390, 200
_LARGEST = 1 << 63
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python3", "<frozen", "<string>")
# Launchers and tools that parse a command line which is not the program's.
_NOT_THE_PROGRAM = (
    "torch.distributed", "torch.testing", "torch.utils", "accelerate.commands", "deepspeed.launcher", "IPython", "ipykernel",
    "jupyter", "pip", "pytest", "_pytest", "ray", "wandb", "tensorboard", "mlflow", "coverage", "pdb", "cProfile", "horovod",
    "lightning_fabric.cli", "lightning.fabric.cli", "multiprocessing", "unittest",
)  # fmt: skip
_WORDS = frozenset((
    "accelerator", "amp_dtype", "backend", "checkpoint", "checkpoint_dir", "ckpt", "ckpt_dir", "ckpt_path", "class", "config",
    "config_file", "config_name", "config_path", "data", "data_dir", "data_path", "data_root", "dataset", "dataset_dir",
    "dataset_name", "dataset_path", "deepspeed", "device", "dist_backend", "dtype", "eval_strategy", "evaluation_strategy", "fsdp",
    "init_from", "init_method", "load_from", "logger", "loss", "loss_type", "lr_scheduler", "lr_scheduler_type", "mixed_precision",
    "mode", "model", "model_name", "model_name_or_path", "monitor", "optim", "optimizer", "out_dir", "output", "output_dir",
    "output_path", "policy", "policy_class", "precision", "report_to", "resume", "resume_from", "resume_from_checkpoint", "root",
    "sampler", "save_dir", "save_path", "save_strategy", "sched", "schedule", "scheduler", "split", "strategy", "task", "task_name",
    "torch_dtype", "tracker", "train_data", "train_file", "val_data", "validation_file", "wandb_mode", "work_dir",
))  # fmt: skip
_SECRET = ("key", "token", "secret", "passw", "credential", "auth", "pwd", "cookie", "passphrase")
_SPOKEN = frozenset(("true", "false", "none", "null", "yes", "no", "on", "off", "nan", "inf", "auto"))
_NUMERIC = frozenset("0123456789.,eE+-_% ()[]:")
_hook = Hook("settings")
_count = {"all": 0}
page.after_fork.append(lambda: _count.__setitem__("all", 0))


def tell(source: str, values: dict[str, Any], place: str = "", **more: Any) -> None:
    """One event; at most so many in a process. Never raises."""
    try:
        if _may_tell() and (values or more):
            _count["all"] += 1
            pairs = [[name, value] for name, value in values.items()]
            events.write("settings", source=source, place=place or _Caller().place, settings=pairs, **more)
    except Exception:
        _hook.failed()


def place() -> str:
    """The line of the program that led here, and its function."""
    return _Caller().place


def _may_tell() -> bool:
    return _hook.on and _count["all"] < _MOST_EVENTS


def plain(pairs: Any) -> dict[str, Any]:
    """Of names and values those that may be written down, through plain containers, by dotted names."""
    found: dict[str, Any] = {}
    try:
        for name, value in _walk("", pairs, _DEEPEST):
            if len(found) == _MOST_VALUES:
                break
            found[name] = value
    except Exception:
        _hook.failed()
    return found


def _walk(prefix: str, pairs: dict[Any, Any], deepest: int) -> Iterator[tuple[str, Any]]:
    for key, value in list(pairs.items()):
        if type(key) is not str or key.startswith("_") or len(key) > 80:
            continue
        name = prefix + key
        inner = _inside(value)
        if inner is not None:
            if deepest:
                yield from _walk(name + ".", inner, deepest - 1)
            continue
        known = _value_of(value)
        if _is_wanted(key, known):
            yield name, known


def _inside(value: Any) -> dict[Any, Any] | None:
    """What a container or a dataclass holds, without a call into its code."""
    kind = type(value)
    if kind is dict:
        return value  # type: ignore[no-any-return]
    attributes = _attributes(value)
    if kind.__module__.startswith("omegaconf."):
        content = attributes.get("_content")
        return content if type(content) is dict else None
    if kind.__name__ in ("Namespace", "SimpleNamespace") or "__dataclass_fields__" in vars(kind):
        return attributes
    return None


def _attributes(value: Any) -> dict[Any, Any]:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _value_of(value: Any) -> Any:
    """A node of OmegaConf or a member of an enumeration as what it stands for."""
    kind = type(value)
    if kind.__module__.startswith("omegaconf."):
        return _attributes(value).get("_val")
    if any(base.__module__ == "enum" and base.__name__ == "Enum" for base in kind.__mro__):
        return _attributes(value).get("_value_")
    return value


def _is_wanted(name: str, value: Any) -> bool:
    kind = type(value)
    if kind is bool or kind is float or value is None:
        return True
    if kind is int:
        return bool(-_LARGEST < value < _LARGEST)
    lowered = name.lower()
    if kind is not str or len(value) > _LONGEST or any(word in lowered for word in _SECRET) or "${" in value:
        return False
    if "://" in value and "@" in value:
        return False
    return lowered.rpartition(".")[2].replace("-", "_") in _WORDS or _looks_like_a_number(value)


def _looks_like_a_number(text: str) -> bool:
    """Text of a kind that a program may have meant as a number or a truth value."""
    lowered = text.strip().lower()
    return len(lowered) <= 24 and (lowered in _SPOKEN or (lowered[:1] in "0123456789.+-([" and _NUMERIC.issuperset(text)))


class _Caller:
    """Who called a parser: the first frame outside of its own library, and the innermost line of the program behind it."""

    __slots__ = ("is_program", "module", "place")

    def __init__(self, *library: str) -> None:
        self.module = self.place = ""
        self.is_program = False
        frame: Any = sys._getframe(1)
        for _ in range(80):
            if frame is None:
                return
            code, module = frame.f_code, frame.f_globals.get("__name__")
            module = module if type(module) is str else "?"
            if not our_frames.is_ours(code) and not module.startswith(library):
                of_program = not any(part in code.co_filename for part in _LIBRARIES)
                if not self.module:
                    self.module, self.is_program = module, of_program
                if of_program:
                    self.place = "%s:%d %s" % (code.co_filename, frame.f_lineno, code.co_name)
                    return
            frame = frame.f_back


def install(module: Any) -> None:
    """Wrap the parser or the constructor of this module."""
    name = module.__name__
    if name == "argparse":
        patching.replace(module.ArgumentParser, "parse_known_args", _parsing)
    elif name == "yaml":
        patching.replace(module, "load", _loading)
    elif name == "omegaconf.omegaconf":
        _wrap_omegaconf(module.OmegaConf)
    elif name == "hydra.core.utils":
        patching.replace(module, "run_job", _starting_job)
    elif name == "transformers.training_args":
        patching.replace(module.TrainingArguments, "__post_init__", _made("TrainingArguments", lambda self, _: vars(self)))
    elif name == "accelerate.accelerator":
        patching.replace(module.Accelerator, "__init__", _made("Accelerator", _of_accelerator))
    elif name.endswith("trainer.trainer"):
        patching.replace(module.Trainer, "__init__", _made("Trainer", lambda _, keywords: keywords))


def _parsing(original: Any) -> Any:
    depth = [0]  # a parser of a subcommand is called by that of the command

    def parse_known_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        depth[0] += 1
        result: Any = None
        try:
            result = original(self, *args, **kwargs)
        finally:
            depth[0] -= 1
            if not depth[0] and _may_tell():
                _tell_parsed(self, result)
        return result

    return parse_known_args


def _tell_parsed(parser: Any, result: Any) -> None:
    """What was parsed; of a command line that was refused only the flags that would have been taken."""
    try:
        caller = _Caller("argparse", "transformers.hf_argparser")
        if not caller.module.startswith(_NOT_THE_PROGRAM):
            values = plain(_attributes(result[0])) if type(result) is tuple else {}
            tell("argparse", values, caller.place, flags=_flags(parser))
    except Exception:
        _hook.failed()


def _flags(parser: Any) -> list[Any]:
    """The flags that a parser knows, one for each setting, and the setting."""
    flags: dict[Any, Any] = {}
    actions = _attributes(parser).get("_option_string_actions")
    for flag, action in list(actions.items()) if type(actions) is dict else ():
        setting = _attributes(action).get("dest")
        usable = type(flag) is str and type(setting) is str and len(flag) + len(setting) <= _LONGEST
        if usable and len(flags) < _MOST_FLAGS and len(flag) > len(flags.get(setting, "")):
            flags[setting] = flag
    return [[flag, setting] for setting, flag in flags.items()]


def _loading(original: Any) -> Any:
    def load(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if type(result) is dict and _may_tell():
            _tell_returned("yaml", result)
        return result

    return load


def _tell_returned(library: str, values: Any) -> None:
    """What the program, not a library for itself, got from a reader of configs."""
    try:
        caller = _Caller(library)
        if caller.is_program:
            tell(library, plain(values or {}), caller.place)
    except Exception:
        _hook.failed()


def _wrap_omegaconf(kind: Any) -> None:
    for name in ("load", "merge", "from_cli", "structured"):
        given = vars(kind).get(name)
        function = getattr(given, "__func__", None)
        if isinstance(given, staticmethod) and function is not None:
            setattr(kind, name, staticmethod(_returning("omegaconf", function)))


def _returning(source: str, original: Any) -> Any:
    import functools

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if _may_tell():
            _tell_returned(source, _inside(result))
        return result

    return call


def _starting_job(original: Any) -> Any:
    def run_job(*args: Any, **kwargs: Any) -> Any:
        try:
            config = kwargs.get("config", args[1] if len(args) > 1 else None)
            tell("hydra", plain(_inside(config) or {}))
        except Exception:
            _hook.failed()
        return original(*args, **kwargs)

    return run_job


def _made(source: str, values_of: Callable[[Any, dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
    """For `replace`: tell the values of what was made."""

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            try:
                if _may_tell():
                    tell(source, plain(values_of(self, kwargs)))
            except Exception:
                _hook.failed()

        return __init__

    return make


def _of_accelerator(accelerator: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    state = _attributes(_attributes(accelerator).get("state"))
    precision = state.get("_mixed_precision")
    return dict(keywords, **({"mixed_precision": precision} if type(precision) is str else {}))
