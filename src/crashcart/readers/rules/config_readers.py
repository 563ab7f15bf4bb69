"""Which loader of which library reads the config files of a program, and which files those are.

PyYAML reads ``lr: 1e-4`` as text; OmegaConf, Hydra, ruamel, jsonargparse and yacs read a number, and a typed layer makes one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.names import canonical
from crashcart.readers.interpreter.values import Constant, Container, constant_of
from crashcart.readers.rules._library import handed_to
from crashcart.readers.rules._settings import plain_of
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_PYYAML = tuple(
    f"yaml.{name}"
    for name in (
        "safe_load",
        "load",
        "full_load",
        "unsafe_load",
        "safe_load_all",
        "load_all",
        "full_load_all",
        "unsafe_load_all",
    )
)
# The beginning of the full name of a call -> the kind of loader.
_LOADERS = {
    "omegaconf.OmegaConf.load": "omegaconf", "hydra.main": "hydra", "hydra.compose": "hydra", "hydra.experimental.compose": "hydra",
    "ruamel.yaml.": "ruamel", "crashcart.train.load_yaml": "ruamel", "jsonargparse.": "jsonargparse", "lightning.pytorch.cli.LightningCLI": "jsonargparse",
    "draccus.": "typed", "pyrallis.": "typed", "simple_parsing.parse": "typed", "configargparse.": "typed",
    "transformers.HfArgumentParser.parse_yaml_file": "huggingface", "transformers.HfArgumentParser.parse_dict": "huggingface",
    "mmengine.": "mmengine", "mmcv.Config": "mmengine", "strictyaml.load": "strictyaml", "trl.": "typed",
}  # fmt: skip
_METHODS = {"merge_from_file": "yacs", "hydra_main": "hydra"}  # of objects and libraries that are not known by name


def look(execution: Execution) -> Iterator[Fact]:
    """``code.config_loader``: the kind at each call. ``code.config_read``: a file that was read, and whether 1e-4 is a number there.

    ``code.composed``: the settings that Hydra composed, under their full names, and their files.
    ``code.loader_handed``: in a program that uses the library, the call of PyYAML given to its `load_yaml`.
    """
    calls = execution.trace.calls
    uses_library = any(call.name.startswith("crashcart.train.") for call in calls)
    for call in calls:
        if call.function is not None:
            continue
        if call.name in _PYYAML:
            yield call.fact("code.config_loader", "pyyaml")
            is_plain = len(call.arguments) == 1 and not call.keywords and uses_library
            if is_plain and isinstance(call.node, ast.Call) and (edits := handed_to(call.source, call.node, "load_yaml")):
                yield call.fact("code.loader_handed", {"edits": edits})
        elif call.name.startswith(tuple(_LOADERS)) or call.method in _METHODS:
            kind = next(
                (kind for name, kind in _LOADERS.items() if call.name.startswith(name)), _METHODS.get(call.method, "")
            )
            yield call.fact("code.config_loader", kind)
    for config, files in execution.interpreter.composed[:1] if calls else ():
        yield calls[0].fact("code.composed", {"facts": list(_settings(execution, config, "")), "files": files})
    for path in execution.launch.configs if calls else ():
        launch = execution.launch
        how = {"numbers": path in launch.numeric_files, "comments": path in launch.commented_files}
        yield calls[0].fact("code.config_read", {"path": path, **how})
    for call in execution.trace.named("importlib.import_module", "__import__"):
        if (file := _settings_module(execution, call)) is not None:
            yield call.fact("code.config_read", {"path": file, "numbers": True})


def _settings(execution: Execution, container: Container, prefix: str) -> Iterator[Fact]:
    """The known settings of a composed config, each with the place where it is written."""
    for key, value in execution.interpreter.entries(container).items():
        name = f"{prefix}{key}"
        if isinstance(value, Container) and value.kind == "config":
            yield from _settings(execution, value, f"{name}.")
        elif value.origins and (isinstance(value, Constant) or plain_of(execution, value) is not None):
            origin, plain = value.origins[0], plain_of(execution, value)
            known = canonical(str(key), path=prefix.rstrip("."))
            yield replace(origin, name=known or f"config.{name}", value=plain, spelling=name)


def _settings_module(execution: Execution, call: Call) -> str | None:
    """The file of a module that the launch names, where it holds settings and nothing else."""
    name = call.argument(0, "name")
    plain = constant_of(name)
    if name is None or not name.origins or not isinstance(plain, str):
        return None
    file = execution.interpreter.modules.find(plain)
    source = execution.interpreter.modules.source(file) if file is not None and file.endswith(".py") else None
    if source is None or any(
        isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.For, ast.While)) for node in source.tree.body
    ):
        return None
    return file
