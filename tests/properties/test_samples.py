"""Generated inputs of every kind get an answer: no error of ours, no hang, bounded memory, no secret, the same for the same."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from campaign import KINDS, campaign
from generated_logs import FRAMEWORKS, KERNEL
from properties import Failure, Input, examine, load

from crashcart.errors import DEBUG

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
SAMPLE = {
    "log": 25,
    "kernel": 12,
    "spelling": 20,
    "job": 12,
    "calls": 40,
    "large": 15,
    "plan": 20,
    "run": 15,
    "checkpoint": 20,
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_sample_of_generated_inputs(kind: str, tmp_path: Path) -> None:
    found = campaign(SAMPLE[kind], 12, tmp_path, kinds=[kind], processes=1, smaller=False)
    assert found.tried >= SAMPLE[kind] - 2
    assert not found.failures


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_a_campaign_found_is_answered(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEBUG, "1")
    failures = examine(load(path), tmp_path / "input").failures
    assert not failures


def test_there_are_many_frameworks() -> None:
    assert len(FRAMEWORKS) >= 40
    assert len(KERNEL) >= 10


def tried(path: Path, text: str, *arguments: str, **more: list[str]) -> list[Failure]:
    return examine(Input(more.pop("kind", ["log"])[0], {"a.log": text.encode()}, [list(arguments)]), path / "x").failures


def test_the_properties_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A property that cannot fail proves nothing: each is shown a failure that was planted."""
    monkeypatch.setenv(DEBUG, "1")

    def keys(answer: object) -> list[str]:
        monkeypatch.setattr("properties.main", answer)
        text = "step 1\nKEY=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\n"
        return [failure.key for failure in tried(tmp_path, text, "why", "--json", "a.log")]

    def fails(_: object) -> int:
        raise KeyError("planted")

    def prints(text: str, code: int = 0) -> object:
        return lambda _: (print(text), code)[1]  # noqa: T201 - as a verb does

    def writes_outside(_: object) -> int:
        Path("../victim").write_text("x", encoding="utf-8")
        return 2

    def grows(_: object) -> int:
        return 2 if len(bytearray(b"x") * (150 << 20)) else 0

    def loops(_: object) -> int:
        while True:
            pass

    assert keys(fails) == ["error:KeyError"]
    assert keys(prints("{}", 3)) == ["exit:3"]
    assert fnmatch.filter(keys(prints('{"schema": 1}')), "schema:*")
    assert fnmatch.filter(keys(prints("NaN")), "schema:*")
    assert "secret:@@" in keys(prints("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", 2))
    assert keys(writes_outside) == ["overwritten"]
    assert keys(grows) == ["memory"]
    monkeypatch.setattr("properties.CPU_SECONDS", 0.2)
    assert fnmatch.filter(keys(loops), "slow@*")
