"""How many devices and nodes a Lightning trainer is given, which is how many ranks it starts by itself.

Trainer(devices=2)      Trainer(devices=cfg.gpus, num_nodes=cfg.nodes)      Trainer(**config["lightning"]["trainer"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.readers.code._given import Giving
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.parallel import LIGHTNING
from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

COUNTS = ("devices", "num_nodes", "gpus")


def look(program: Program) -> Iterator[Fact]:
    """``code.devices``: each count as a constant or the key of a setting, and the keys below which ``**`` finds the rest."""
    if not program.imports("lightning", "pytorch_lightning"):
        return
    giving = Giving(program)
    for reading in readings_of(program):
        source = reading.source
        for call in source.calls(*LIGHTNING):
            value: dict[str, Any] = {name: _given(giving, source, call, name) for name in COUNTS}
            spread = [one.value for one in call.keywords if one.arg is None]
            value["below"] = [reading.key(one) for one in spread]
            yield source.fact("code.devices", value, call)


def _given(giving: Giving, source: Source, call: ast.Call, name: str) -> dict[str, Any] | None:
    """What an argument is; None where it is not given at all."""
    node = keyword(call, name)
    if node is None:
        return None
    found = giving.of(source, node)
    return {"key": found["key"]} if found.get("key") else {"value": found.get("value")}
