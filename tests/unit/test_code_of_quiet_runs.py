"""What the code shows of runs that ended well and trained nothing: what is frozen, settings with an empty part, tests before a step."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.readers.plan import Asked, plans

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.model import Fact

PROGRAM = """
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--freeze", default="stem,mid")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))

    def freeze(model, names):
        prefixes = tuple(names.split(","))
        for name, parameter in model.named_parameters():
            parameter.requires_grad = not name.startswith(prefixes)

    freeze(net, args.freeze)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
    accumulate = 4096 // args.batch
    for i, x in enumerate(torch.randn(30, 8, 4)):
        net(x).mean().backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
    torch.save(net.state_dict(), "net.pt")
"""


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(textwrap.dedent(PROGRAM))

    def facts_of(*words: str) -> dict[str, list[Fact]]:
        return plans(Asked(["python", "train.py", *words], []))[0].case.seen

    return facts_of


def _lines(facts: list[Fact]) -> list[str]:
    return [fact.evidence.where for fact in facts]


def test_a_separator_at_the_end_makes_an_empty_part(seen: Any) -> None:
    (fact,) = seen("--freeze", "stem,mid,")["code.empty_part"]
    assert fact.value["whole"] == "stem,mid"
    assert fact.value["setting"].spelling == "--freeze"


def test_a_list_without_one_has_none(seen: Any) -> None:
    assert "code.empty_part" not in seen()


def test_what_is_frozen_and_under_which_test_an_optimizer_steps(seen: Any) -> None:
    facts = seen()
    assert _lines(facts["code.frozen"]) == ["train.py:14"]
    (step,) = facts["code.step_condition"]
    assert step.value["test"].where == "train.py:21"
    assert _lines(facts["code.saves"]) == ["train.py:23"]
