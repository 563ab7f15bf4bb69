"""A metric that is waited for under one name and logged under another; the message lists what there is.

    RuntimeError: Early stopping conditioned on metric `val_loss` which is not available. ... any of the following: `valid/loss`
    ModelCheckpoint(monitor='val_loss') could not find the monitored key in the returned metrics: ['valid/loss', 'epoch', 'step']
    KeyError: "The `metric_for_best_model` ... set to 'eval_f1', which is not found ... metrics are: ['eval_loss', 'eval_macro_f1']"

The name is changed where it is asked for, if that is one place and one of those that there are ends in the same word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.pattern import Pattern
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.remedies.near_words import places_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("silent/eval-empty", "config/missing-or-wrong", "code/bug")
_WANTED = Pattern(r"(?:conditioned on metric `|monitor=['\"]|argument is set to ['\"])([\w/.@-]{1,80})[`'\"]")
_LISTED = Pattern(r"(?:following: |returned metrics: |metrics are: )\[?((?:[`'\"][\w/.@-]{1,80}[`'\"](?:, )?){1,60})")
_NAME = Pattern(r"[`'\"]([\w/.@-]{1,80})[`'\"]")
_PARTS = Pattern(r"[A-Za-z0-9]{1,40}")
_COUNTERS = frozenset({"epoch", "step", "hp_metric"})


def look(scene: Scene) -> Iterator[Fact]:
    """The first exception that says both."""
    for raised in scene.raises[:1]:
        wanted, listed = _WANTED.search(raised.words), _LISTED.search(raised.words)
        if wanted is None or listed is None:
            return
        known = [match[1] for match in _NAME.finditer(listed[1]) if match[1] not in _COUNTERS]
        fitting = [name for name in known if _last_word(name) == _last_word(wanted[1])]
        places = list(places_of(scene, wanted[1]))
        if len(fitting) == 1 and len(places) == 1:
            (span, quote), right = places[0], fitting[0]
            why = f"nothing is logged as {wanted[1]!r}; what is logged is called {right!r}"
            yield from remedy(_CAUSES, f"Ask for {right} instead of {wanted[1]}", "exact", why, [Edit(span, right)], quote)


def _last_word(name: str) -> str:
    words = [match[0].lower() for match in _PARTS.finditer(name)]
    return words[-1] if words else ""
