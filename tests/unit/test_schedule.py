"""Which periodic work falls on a step, and whether it had been seen before."""

from __future__ import annotations

from typing import Any

import pytest

from crashcart.model import Evidence, Fact
from crashcart.schedule import meeting, periods


def facts(**settings: Any) -> dict[str, Fact]:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return {name: Fact(name, value, Evidence("command", f"{name}={value}", "train.sh:1")) for name, value in named.items()}


SEED_000 = facts(save__period=2000, sample__period=500, train__accumulation=2, train__max_steps=100_000)


def test_step_2000_of_seed_000_is_the_first_where_checkpoint_and_sampling_meet() -> None:
    found = meeting(SEED_000, 2000)
    assert found is not None
    assert found.works == ("save", "sample")
    assert found.first
    assert found.earlier == {"save": (), "sample": (500, 1000, 1500), "save+sample": ()}
    assert found.next_step == 4000


def test_the_next_meeting_is_no_longer_the_first() -> None:
    found = meeting(SEED_000, 4000)
    assert found is not None
    assert not found.first
    assert found.earlier["save+sample"] == (2000,)


def test_sampling_alone_is_first_only_once() -> None:
    first, second = meeting(SEED_000, 500), meeting(SEED_000, 1000)
    assert first is not None
    assert second is not None
    assert (first.works, first.first, second.first) == (("sample",), True, False)
    assert second.next_step == 1500


def test_a_resumed_run_has_seen_only_what_came_after_its_start() -> None:
    found = meeting(SEED_000, 4000, start=2000)
    assert found is not None
    assert found.earlier == {"save": (), "sample": (2500, 3000, 3500), "save+sample": ()}
    assert found.first


def test_periods_that_do_not_divide_each_other_meet_at_their_multiple() -> None:
    found = meeting(facts(save__period=300, eval__period=200, sample__period=0), 600)
    assert found is not None
    assert found.works == ("save", "eval")
    assert found.next_step == 1200


def test_logging_goes_with_anything_and_makes_nothing_first() -> None:
    found = meeting(facts(save__period=100, log__period=10), 200)
    assert found is not None
    assert (found.works, found.first, found.next_step) == (("save", "log"), False, 300)
    only = meeting(facts(log__period=10), 10)
    assert only is not None
    assert only.works == ("log",)


def test_after_the_last_step_nothing_meets() -> None:
    found = meeting(facts(save__period=2000, train__max_steps=3000), 2000)
    assert found is not None
    assert found.next_step is None
    by_epochs = meeting(facts(save__period=2000, train__epochs=2, train__steps_per_epoch=1500), 2000)
    assert by_epochs is not None
    assert by_epochs.next_step is None


@pytest.mark.parametrize("value", [0, -1, None])
def test_a_period_of_nothing_is_off(value: object) -> None:
    assert periods(facts(sample__period=value)) == {"sample": None}
    assert meeting(facts(sample__period=value), 500) is None


@pytest.mark.parametrize("value", ["500", "auto", True, float("inf"), float("nan"), 12.5])
def test_a_period_that_is_no_number_of_steps_stays_unknown(value: object) -> None:
    assert periods(facts(save__period=value)) == {}


def test_a_step_without_work_and_a_case_without_facts_have_no_meeting() -> None:
    assert meeting(SEED_000, 1999) is None
    assert meeting(SEED_000, 0) is None
    assert meeting({}, 2000) is None


def test_hf_strategies_and_shares_are_honoured() -> None:
    assert periods(facts(eval__strategy="no", eval__period=500)) == {"eval": None}
    assert periods(facts(eval__strategy=False, eval__period=500)) == {"eval": None}
    assert periods(facts(save__strategy="epoch", save__period=500)) == {}
    assert periods(facts(save__strategy="epoch", train__steps_per_epoch=120)) == {"save": 120}
    assert periods(facts(save__period=0.1, train__max_steps=995)) == {"save": 100}
    assert periods(facts(save__period=0.1)) == {}


def test_periods_in_epochs_and_batches_become_steps_where_that_can_be_told() -> None:
    assert periods(facts(eval__period_epochs=2, train__steps_per_epoch=50)) == {"eval": 100}
    assert periods(facts(eval__period_epochs=2)) == {}
    assert periods(facts(eval__period_batches=1000, train__accumulation=4)) == {"eval": 250}
    assert periods(facts(eval__period_batches=1.0)) == {}


def test_a_long_run_does_not_list_a_million_steps() -> None:
    found = meeting(facts(log__period=1), 1_000_000)
    assert found is not None
    assert len(found.earlier["log"]) <= 1000
    assert found.earlier["log"][-1] == 999_999
