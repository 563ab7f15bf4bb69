"""What stands in the cases, plans and healthy logs of the tests, with some of its numbers and words replaced by extreme ones."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

import test_cases  # noqa: E402 - the folder of the tests is on the path from here on
import test_plans  # noqa: E402
from extreme_fields import extreme, words  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Plan", "real_logs", "real_plans", "spoilt"]

_LONGEST = 12_000
_PLACES = re.compile(r"\d[\d.]*|(?<==)\w+|(?<=: )\w+")


class Plan(NamedTuple):
    """A job as a plan file has it."""

    files: dict[str, str]
    arguments: list[str]


LOGS = [body for section in test_cases.sections() for _, body in section.of("log")] + [
    path.read_bytes()[:_LONGEST].decode("utf-8", "ignore") for path in sorted((TESTS / "healthy").glob("*.log"))
]
PLANS = [
    Plan(dict(section.of("file")), shlex.split(section.of("check")[0][1]))
    for section in test_plans.sections()
    if all(len(body) < _LONGEST for _, body in section.of("file"))
]


@st.composite
def spoilt(draw: st.DrawFn, text: str, most: int = 4) -> str:
    """The text with a few of its numbers or values replaced."""
    places = [match.span() for match in _PLACES.finditer(text)]
    if not places:
        return text
    for start, end in sorted(draw(st.sets(st.sampled_from(places), max_size=most)), reverse=True):
        text = text[:start] + draw(st.one_of(extreme, extreme, extreme, words)) + text[end:]
    return text


@st.composite
def real_plans(draw: st.DrawFn) -> Plan:
    """A job of the plans with one of its files spoilt."""
    plan = draw(st.sampled_from(PLANS))
    name = draw(st.sampled_from(sorted(plan.files)))
    return Plan({**plan.files, name: draw(spoilt(plan.files[name]))}, plan.arguments)


real_logs: SearchStrategy[str] = st.sampled_from(LOGS).flatmap(spoilt)
