"""A checkpoint that does not fit what loads it, by no more than a name, a wrapper or a part that may begin anew.

    Missing key(s): "conv.weight"  Unexpected key(s): "module.conv.weight"      the prefix of a wrapper is taken off, or put on
    Missing key(s): "conv.weight"  Unexpected key(s): "model", "optimizer"      the weights are one entry of the checkpoint
    loaded state dict has a different number of parameter groups                the optimizer begins anew
    Attempting to deserialize object on a CUDA device                           map_location="cpu"
    a recorded load that took nothing, strict=False                             the prefix, as above

Where tensors have other sizes, or names differ otherwise, nothing is offered: then it is another model.
"""

from __future__ import annotations

import ast
from itertools import islice
from typing import TYPE_CHECKING

from crashcart.doubts import unfitting
from crashcart.pattern import Pattern
from crashcart.places import spot_of
from crashcart.readers.code.edits import own_lines, replaced, tried
from crashcart.readers.code.source import name_of
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.remedies.unanswered_waits import with_argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("checkpoint/incompatible", "code/version", "code/bug", "silent/partial-load")
_LISTED = Pattern(r"(Missing|Unexpected) key\(s\) in state_dict: ((?:\"[^\"]{1,200}\"(?:, |\. )?){1,4000})")
_KEY = Pattern(r"\"([^\"]{1,200})\"")
_GROUPS = (
    "different number of parameter groups",
    "doesn't match the size of optimizer's group",
    "parameter group that doesn't match",
)
_PICKLED = "Weights only load failed"
_OF_DEVICE = "Attempting to deserialize object on"
_ENTRIES = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "model_state", "params")
_LONGEST_PREFIX = 3  # parts of a name


def look(scene: Scene) -> Iterator[Fact]:
    """The innermost own line at which something is loaded; without an exception the loads that took nothing."""
    if not scene.raises:
        yield from _taken_in_silence(scene)
    for raised in scene.raises[:1]:
        place = scene.at(raised.frames[-1] if raised.frames else None)
        if place is None:
            return
        source, statement = place
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and not hasattr(statement, "body")]
        loading = [
            call
            for call in calls
            if isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and call.args
        ]
        if any(words in raised.words for words in _GROUPS) and len(loading) == 1:
            yield from _anew(source, statement)
        elif _PICKLED in raised.words:
            yield from _trusted(scene, source, calls)
        elif _OF_DEVICE in raised.words:
            reading = [
                call
                for call in calls
                if source.called(call.func) == "torch.load" and not any(each.arg == "map_location" for each in call.keywords)
            ]
            if len(reading) == 1 and len(reading[0].args) == 1:
                why = "tensors are loaded to the CPU, and load_state_dict copies them to the model's device"
                edits = [with_argument(source, reading[0], 'map_location="cpu"')]
                yield from remedy(_CAUSES, "Load the checkpoint to the CPU", "exact", why, edits, source.evidence(statement))
        elif len(loading) == 1 and (change := _change(raised.words)) is not None:
            yield from _renamed(source, loading[0], *change)


def _taken_in_silence(scene: Scene) -> Iterator[Fact]:
    """A load that left out what did not fit; the recording has a few of the names."""
    for event in islice(unfitting(scene.case.flight), 1) if scene.case.flight is not None else ():
        spot = spot_of(str(event.details.get("place")))
        place = scene.at(spot)
        change = _change_of(*(list(event.details.get(f"{kind}_names") or ()) for kind in ("missing", "unexpected")))
        if place is None or change is None or event.details.get("missing") != event.details.get("unexpected"):
            continue
        source, statement = place
        loading = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and name_of(node.func).endswith("load_state_dict") and node.args
        ]
        if len(loading) == 1:
            yield from _renamed(source, loading[0], *change)


def _anew(source: Source, statement: ast.stmt) -> Iterator[Fact]:
    if isinstance(statement, ast.Expr) and own_lines(source, statement):
        handler = "except ValueError as problem:  # of an optimizer with other parameters"
        edits = tried(source, statement, statement, handler, 'print(f"not loaded, it begins anew: {problem}", flush=True)')
        why = "the weights are loaded; the optimizer state has different parameter groups and cannot be used, so its averages start at 0"
        title = "Start the optimizer from scratch if its state does not match"
        yield from remedy(_CAUSES, title, "changes-training", why, edits, source.evidence(statement))


def _trusted(scene: Scene, source: Source, calls: Sequence[ast.Call]) -> Iterator[Fact]:
    """The whole checkpoint, where the project itself writes it: who wrote the file may run code in whoever reads it so."""
    reading = [call for call in calls if source.called(call.func) == "torch.load"]
    if len(reading) != 1 or not any(
        each.called(call.func) == "torch.save" for each in scene.sources for call in each.nodes(ast.Call)
    ):
        return
    said = next((keyword.value for keyword in reading[0].keywords if keyword.arg == "weights_only"), None)
    edits = (
        [replaced(source, said, "False")] if said is not None else [with_argument(source, reading[0], "weights_only=False")]
    )
    why = "this program writes such files itself, and they contain more than tensors; do this only for files that you trust"
    yield from remedy(
        _CAUSES, "Load the checkpoint with weights_only=False", "by-hand", why, edits, source.evidence(reading[0])
    )


def _change(words: str) -> tuple[str, str] | None:
    """What has to be done with the keys: ``("take off", "module.")``, ``("put on", ...)`` or ``("entry", "model")``."""
    keys: dict[str, list[str]] = {"Missing": [], "Unexpected": []}
    for match in _LISTED.finditer(words):
        keys[match[1]] += [each[1] for each in _KEY.finditer(match[2])]
    return None if "size mismatch" in words else _change_of(keys["Missing"], keys["Unexpected"])


def _change_of(missing: Sequence[str], unexpected: Sequence[str]) -> tuple[str, str] | None:
    if not missing or not unexpected:
        return None
    for one, other, what in ((unexpected, missing, "take off"), (missing, unexpected, "put on")):
        parts = one[0].split(".")
        for count in range(1, min(_LONGEST_PREFIX, len(parts) - 1) + 1):
            prefix = ".".join(parts[:count]) + "."
            if all(key.startswith(prefix) for key in one) and {key.removeprefix(prefix) for key in one} == {*other}:
                return what, prefix
    entries = [name for name in _ENTRIES if name in unexpected]
    if len(entries) == 1 and not any("." in key for key in unexpected):
        return "entry", entries[0]
    return None


def _renamed(source: Source, call: ast.Call, what: str, name: str) -> Iterator[Fact]:
    argument = call.args[0]
    text = source.written(argument)
    if "\n" in text:
        return
    if what == "entry":
        edits: list[Edit] = [replaced(source, argument, f'{text}["{name}"]')]
        title, why = (
            f"Load the entry {name!r} of the checkpoint",
            "the checkpoint contains more than the weights; the weights are in this entry",
        )
    elif what == "take off":
        edits = [replaced(source, argument, f'{{key.removeprefix("{name}"): value for key, value in {text}.items()}}')]
        title, why = (
            f"Remove the prefix {name!r} from the names",
            "the model was wrapped when it was saved; without the prefix all names match",
        )
    else:
        edits = [replaced(source, argument, f'{{"{name}" + key: value for key, value in {text}.items()}}')]
        title, why = (
            f"Add the prefix {name!r} to the names",
            "the model is wrapped now; with the prefix all names match",
        )
    yield from remedy(_CAUSES, title, "exact", why, edits, source.evidence(call))
