"""No text makes a regular expression of ours take more than linear time: shown for each from its own structure."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

import found_patterns
import pytest
from found_patterns import found
from linear_patterns import paths

import crashcart.pattern
from crashcart.verbs.why import why

MOST_PATHS = 200  # alive at one place of a text: a microsecond for a character at worst, and mostly far less
CASES = sorted((Path(__file__).parent.parent / "cases").rglob("*.md"))


@pytest.mark.parametrize(
    ("pattern", "flags", "how", "most"),
    [
        (r"\w+=", 0, "search", inf),  # every place of a long word is tried to its end
        (r"\b\w+=", 0, "search", 1),
        (r"(?<!\w)\w+=", 0, "search", 1),
        (r"\w+=", 0, "match", 1),
        (r"\w{0,60}=", 0, "search", 60),
        (r"foo.*bar", 0, "search", inf),
        (r"foo.*", 0, "search", 1),
        (r"^foo.*bar", 0, "search", 1),
        (r"^foo.*bar", re.MULTILINE | re.DOTALL, "search", inf),
        (r"foo\s+bar", 0, "search", 1),
        (r"a\s*\s*b", 0, "search", inf),
        (r"^.*foo.*bar", 0, "search", inf),
        (r"(a*)*b", 0, "match", inf),
        (r"(?:a|a)*b", 0, "match", inf),
        (r"(?:a|b)*c", 0, "match", 1),
        (r"(?:data|loader|dataloader)+s", 0, "fullmatch", inf),
        (r"(?:data|loader)+s", 0, "fullmatch", 1),
        (r"x(?:\d+\.)*y", 0, "search", 1),
        (r"\d+\.?\d*x", 0, "match", inf),
        (r"\d+(?:\.\d*)?x", 0, "match", 1),
        (r"(?i)K\w*k", 0, "search", inf),
        (r"(['\"])[^'\"]*\1x", 0, "match", 1),
        (r"\d+(?=.*x)y", 0, "search", inf),
    ],
)
def test_the_proof_tells_linear_from_not(pattern: str, flags: int, how: str, most: float) -> None:
    count, _ = paths(pattern, flags, anchored=how == "match", whole=how == "fullmatch")
    assert count == most


def test_every_expression_is_linear() -> None:
    """A new one that is not is named here, with the repeats that multiply; bound one of them, or begin it with a lookbehind."""
    bad = []
    seen: dict[tuple[str | bytes, int, frozenset[str]], tuple[float, str]] = {}
    for one in found():
        key = (one.pattern, one.flags, one.methods)
        if key not in seen:
            anchored = bool(one.methods) and one.methods <= found_patterns.ANCHORED
            seen[key] = paths(one.pattern, one.flags, anchored=anchored, whole=one.methods == {"fullmatch"})
            if seen[key][0] > MOST_PATHS:
                bad.append(f"{one.where}: {one.pattern!r} ({seen[key][0]:.0f} paths: {seen[key][1]})")
    assert len(seen) > 900
    assert not bad, "\n".join(bad)


def test_what_is_compiled_while_we_work_was_found_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {one.pattern for one in found()}
    unknown: set[str] = set()

    def compiled(pattern: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
        if pattern not in known:
            unknown.add(pattern)
        return re.compile(pattern, flags)

    monkeypatch.setattr(crashcart.pattern, "compiled", compiled)
    log = tmp_path / "x.log"
    for case in CASES[::4]:
        log.write_text(case.read_text())
        why([str(log)], look_around=False)
    assert not unknown
