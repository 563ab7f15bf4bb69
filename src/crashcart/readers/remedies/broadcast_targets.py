"""A target that has one dimension less than the prediction: torch warns, and compares each with all of the others.

train.py:10: UserWarning: Using a target size (torch.Size([32])) that is different to the input size (torch.Size([32, 1])). ...
loss = nn.functional.mse_loss(self.net(x), y)          y.unsqueeze(-1)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.places import Spot, is_own
from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import keyword
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_PAIR = 2
_CAUSES = ("silent/not-learning",)
_WARNING = Pattern(
    r"^(\S[^\n]{0,400}?):(\d{1,9}): UserWarning: Using a target size \(torch\.Size\(\[([\d, ]{0,80})\]\)\) "
    r"that is different to the input size \(torch\.Size\(\[([\d, ]{0,80})\]\)\)"
)


def look(scene: Scene) -> Iterator[Fact]:
    """The line that the warning names, where it is the user's."""
    for line in scene.case.log.index.saying(("using a target size (torch.size(",)):
        match = _WARNING.search(line.text)
        if match is None or not is_own(match[1]):
            continue
        place = scene.at(Spot(match[1], to_int(match[2], 0), ""))
        target, given = ([part.strip() for part in sizes.split(",") if part.strip()] for sizes in (match[3], match[4]))
        if place is None or [*target, "1"] != given:
            return
        source, statement = place
        calls = [
            call
            for call in ast.walk(statement)
            if isinstance(call, ast.Call) and (len(call.args) == _PAIR or keyword(call, "target") is not None)
        ]
        argument = keyword(calls[0], "target", 1) if len(calls) == 1 else None
        if argument is not None and isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            why = "prediction and target then have one shape, and each is compared with its own"
            edits = [replaced(source, argument, f"{source.written(argument)}.unsqueeze(-1)")]
            yield from remedy(_CAUSES, "Give the target the shape of the prediction", "changes-training", why, edits, source.evidence(statement))  # fmt: skip
        return
