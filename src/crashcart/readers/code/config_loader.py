"""Who turns a config file into values, and whether something with types follows.

PyYAML reads ``lr: 1e-4`` as text; OmegaConf, Hydra, ruamel, jsonargparse and yacs read a number, and a typed layer (pydantic,
draccus, an argparse parser whose defaults are set from the file) makes one of the text. A check that ignores the loader cries
wolf. Calls are known by what was imported: ``yaml = YAML()`` of ruamel is not PyYAML.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._library import handed_to
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

PYYAML = {"safe_load", "load", "full_load", "unsafe_load", "safe_load_all", "load_all", "full_load_all"}
# The end of the name of a call, imports followed -> the kind of loader.
LOADERS = {
    "omegaconf.OmegaConf.load": "omegaconf",
    "OmegaConf.load": "omegaconf",
    "hydra.main": "hydra",
    "hydra_main": "hydra",
    "hydra.compose": "hydra",
    "hydra.experimental.compose": "hydra",
    "ruamel.yaml.YAML": "ruamel",
    "ruamel.yaml.safe_load": "ruamel",
    "ruamel.yaml.load": "ruamel",
    "crashcart.train.load_yaml": "ruamel",  # numbers are numbers, and a key that stands twice is refused
    "jsonargparse.CLI": "jsonargparse",
    "jsonargparse.auto_cli": "jsonargparse",
    "jsonargparse.ArgumentParser": "jsonargparse",
    "LightningCLI": "jsonargparse",
    "draccus.wrap": "typed",
    "draccus.parse": "typed",
    "pyrallis.wrap": "typed",
    "pyrallis.parse": "typed",
    "simple_parsing.parse": "typed",
    "configargparse.ArgumentParser": "typed",
    "configargparse.ArgParser": "typed",
    "merge_from_file": "yacs",
    "parse_yaml_file": "huggingface",
    "parse_dict": "huggingface",
    "TrlParser": "typed",
    "mmengine.Config.fromfile": "mmengine",
    "mmengine.config.Config.fromfile": "mmengine",
    "mmcv.Config.fromfile": "mmengine",
    "mmcv.utils.Config.fromfile": "mmengine",
    "strictyaml.load": "strictyaml",
    "yamlargparse.ArgumentParser": "jsonargparse",
}
LASTS = {end.rpartition(".")[2] for end in LOADERS}
LAYERS = (
    "pydantic", "dacite", "cattrs", "marshmallow", "voluptuous", "cerberus", "typedload", "mashumaro", "dataclass_wizard",
    "msgspec", "typeguard", "beartype", "jsonschema", "attr", "attrs", "gin", "fairscale.config",
)  # fmt: skip
NUMBERS = {"float", "int"}


def look(program: Program) -> Iterator[Fact]:
    """``code.config_loader``: the kind at each call. ``code.number_resolver``, ``code.typed_layer``: what makes numbers of text.

    The value of a typed layer is the names of the fields that become numbers, or None where that cannot be told.
    ``code.loader_handed``: in a program that uses the library, the call of PyYAML given to its `load_yaml`.
    """
    library = program.imports("crashcart.train")
    for source in program.sources:
        yield from _loaders(source)
        if library:
            yield from _handed(source)
        for call in source.calls("add_implicit_resolver"):
            yield source.fact("code.number_resolver", value=True, node=call)
        yield from _layers(source)
    if typed := sorted({name.split(".")[0] for source in program.sources for name in source.names.values()} & set(LAYERS)):
        first = program.sources[0]
        if typed != ["pydantic"] and first.tree.body:
            yield first.fact("code.typed_layer", None, first.tree.body[0])


def _handed(source: Source) -> Iterator[Fact]:
    for call in source.calls("yaml.safe_load", "yaml.load", "yaml.full_load"):
        if len(call.args) == 1 and not call.keywords and (edits := handed_to(source, call, "load_yaml")):
            yield source.fact("code.loader_handed", {"edits": edits}, call)


def _loaders(source: Source) -> Iterator[Fact]:
    for call in source.nodes(ast.Call):
        name = source.called(call.func)
        head, _, last = name.rpartition(".")
        if head == "yaml" and last in PYYAML and "yaml" in source.names.values():
            yield source.fact("code.config_loader", _pyyaml(call, source), call)
        elif name in PYYAML and source.names.get(name, "").startswith("yaml."):
            yield source.fact("code.config_loader", "pyyaml", call)
        elif last in LASTS:
            kind = next((kind for end, kind in LOADERS.items() if name == end or name.endswith(f".{end}")), None)
            if kind:
                yield source.fact("code.config_loader", kind, call)


def _pyyaml(call: ast.Call, source: Source) -> str:
    """``yaml.load`` with a loader of the program's own may read anything."""
    given = keyword(call, "Loader", 1)
    known = given is None or source.called(given).startswith("yaml.") or name_of(given).endswith(("Loader",))
    own = {one.name for one in source.nodes(ast.ClassDef)}
    return "pyyaml" if known and (given is None or name_of(given) not in own) else "unknown"


def _layers(source: Source) -> Iterator[Fact]:
    for node in source.nodes(ast.ClassDef):
        if any(source.called(base).split(".")[-1] in {"BaseModel", "BaseSettings"} for base in node.bases):
            names = [
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and _is_number(one.annotation)
            ]
            yield source.fact("code.typed_layer", names, node)
    for call in source.nodes(ast.Call):
        if keyword(call, "default_map") is not None:  # click puts what it holds through the types of its options
            yield source.fact("code.typed_layer", None, call)
    for call in source.calls("set_defaults"):
        if any(one.arg is None for one in call.keywords):
            yield source.fact("code.typed_layer", sorted(_typed_flags(source)), call)


def _is_number(annotation: ast.expr) -> bool:
    """``float``, ``int``, ``Optional[float]``; a union with ``str`` keeps the text."""
    names = {one.id for one in ast.walk(annotation) if isinstance(one, ast.Name)}
    return (
        bool(names & {*NUMBERS, "PositiveInt", "PositiveFloat", "conint", "confloat"})
        and "str" not in names
        and "Any" not in names
    )


def _typed_flags(source: Source) -> Iterator[str]:
    for call in source.calls("add_argument"):
        kind = keyword(call, "type")
        if isinstance(kind, ast.Name) and kind.id in NUMBERS:
            for one in call.args:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value.lstrip("-").replace("-", "_")
