"""Windows of micro batches: one big batch, whatever is odd about them; and what stands beside the cycle."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
import torch
from guarded import INF, NAN, adam, loss_of, net, rows, run, weights
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from crashcart.train import StepGuard, agree_finite, masked_nan

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore:StepGuard")


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("accumulate", [1, 3, 4, 20])
def test_accumulation_is_one_big_batch(accumulate: int, clip: float | None) -> None:
    model, big = net(), net()
    guard, optimizer = StepGuard(model, adam(model), accumulate=accumulate, clip=clip), adam(big)
    batches = rows(10)
    run(model, guard, batches)
    for first in range(0, 10, accumulate):
        optimizer.zero_grad()
        loss_of(big, torch.cat(batches[first : first + accumulate])).backward()  # type: ignore[no-untyped-call]
        if clip:
            torch.nn.utils.clip_grad_norm_(big.parameters(), clip)
        optimizer.step()
    assert weights(model) == pytest.approx(weights(big), abs=1e-6)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_usual_division_makes_a_partial_window_too_small() -> None:
    """Five micro batches by four: what everybody writes steps once with a quarter of the last gradient, or not at all."""
    model, big = net(), net()
    for batch in rows(5)[4:]:
        (loss_of(model, batch) / 4).backward()  # type: ignore[no-untyped-call]
    loss_of(big, rows(5)[4]).backward()  # type: ignore[no-untyped-call]
    ratio = next(model.parameters()).grad.norm() / next(big.parameters()).grad.norm()  # type: ignore[union-attr]
    assert float(ratio) == pytest.approx(0.25)


def test_micro_batches_of_unequal_size_count_by_their_weight() -> None:
    samples = torch.cat(rows(6))
    for weight in (len, lambda part: torch.tensor(float(len(part)))):
        model, big = net(), net()
        guard, optimizer = StepGuard(model, adam(model), accumulate=3), adam(big)
        for part in guard.batches([samples[:1], samples[1:8], samples[8:]]):
            guard.backward(loss_of(model, part), weight=weight(part))
        loss_of(big, samples).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert weights(model) == pytest.approx(weights(big), abs=1e-6)
        assert guard.loss is not None


@pytest.mark.parametrize("given", [(8, None), (None, 8)])
def test_a_weight_for_some_micro_batches_of_a_step_is_refused(given: tuple[int | None, int | None]) -> None:
    """Counted as 1 beside 8, the others would hardly be trained on."""
    model = net()
    guard = StepGuard(model, adam(model), accumulate=2)
    first, second = rows(2)
    guard.backward(loss_of(model, first), weight=given[0])
    with pytest.raises(ValueError, match="some micro batches of a step and not for the others"):
        guard.backward(loss_of(model, second), weight=given[1])
    assert guard.counts.windows == 0


def test_a_progress_bar_knows_the_number_of_batches() -> None:
    """The usual generator has no length: tqdm shows a count without an end."""
    tqdm = pytest.importorskip("tqdm").tqdm
    model = net()
    guard = StepGuard(model, adam(model), accumulate=2)
    batches = guard.batches(DataLoader(TensorDataset(torch.randn(5, 4)), batch_size=2))
    bar = tqdm(batches, disable=True)
    assert (len(batches), bar.total) == (3, 3)
    for _ in range(2):  # a second epoch over the same object is an epoch, not an empty loop
        for (inputs,) in bar:
            guard.backward(loss_of(model, inputs))
    assert (guard.counts.windows, guard.counts.partial) == (4, 2)
    assert tqdm(guard.batches(iter(rows(2))), disable=True).total is None


def test_batches_go_on_where_they_were_and_end_once() -> None:
    model = net()
    guard = StepGuard(model, adam(model))
    batches = guard.batches(rows(3))
    guard.backward(loss_of(model, next(batches)))
    for batch in batches:
        guard.backward(loss_of(model, batch))
    assert guard.counts.windows == 3
    assert next(batches, None) is None
    assert len(list(batches)) == 3


def test_a_loop_that_was_left_and_is_closed_late_does_not_disturb_the_next() -> None:
    model = net()
    guard = StepGuard(model, adam(model), accumulate=2)
    left = guard.batches(rows(4))
    guard.backward(loss_of(model, next(left)))
    for number, batch in enumerate(guard.batches(rows(4))):
        if number == 0:
            del left
        guard.backward(loss_of(model, batch))
        with pytest.raises(RuntimeError, match="twice"):
            guard.backward(loss_of(model, batch))
    assert (guard.counts.windows, guard.counts.partial) == (3, 1)


def test_an_optimizer_of_another_model_is_told_that_it_changes_nothing() -> None:
    """Made before the model was replaced: what is usual trains nothing for the whole night."""
    model, old = net(), net()
    guard = StepGuard(model, adam(old))
    with pytest.warns(UserWarning, match="holds other parameters") as said:
        run(model, guard, rows(4))
    assert len(said) == 1


def test_a_loop_of_ones_own_steps_by_count_and_finishes_the_rest() -> None:
    model, same = net(), net()
    guard, other = StepGuard(model, adam(model), accumulate=4), StepGuard(same, adam(same), accumulate=4)
    stepped = []
    for batch in rows(6):
        guard.backward(loss_of(model, batch), batch=batch)
        stepped.append(guard.stepped)
    assert stepped == [False, False, False, True, False, False]
    assert guard.finish()
    assert not guard.finish()
    for batch in rows(6):
        with other.step(batch):
            other.backward(loss_of(same, batch))
    other.finish()
    third = net()
    run(third, StepGuard(third, adam(third), accumulate=4), rows(6))
    assert weights(model) == weights(same) == pytest.approx(weights(third), abs=1e-7)


def test_a_batch_that_the_loop_leaves_out_does_not_hold_its_window_open() -> None:
    model = net()
    guard = StepGuard(model, adam(model), accumulate=2)
    for number, batch in enumerate(guard.batches(rows(6))):
        if number in (1, 2, 3):
            continue
        guard.backward(loss_of(model, batch))
    assert (guard.counts.windows, guard.counts.partial) == (2, 1)


def test_a_loop_that_breaks_is_finished_by_the_next() -> None:
    model = net()
    guard = StepGuard(model, adam(model), accumulate=4)
    for batch in guard.batches(rows(6)):
        guard.backward(loss_of(model, batch))
        break
    run(model, guard, rows(4))
    assert (guard.counts.windows, guard.counts.partial) == (2, 1)


def test_what_other_backwards_left_is_not_taken_in() -> None:
    """The usual GAN: the generator's loss leaves gradients on the discriminator, which its next step would take."""
    model, alone = net(), net()
    guard, other = StepGuard(model, adam(model)), StepGuard(alone, adam(alone))
    for batch in guard.batches(rows(4)):
        guard.backward(loss_of(model, batch))
        (model(batch).mean() * 100).backward()
    run(alone, other, rows(4))
    assert weights(model) == weights(alone)


def test_an_error_of_the_loader_comes_after_the_batch_before_it() -> None:
    def loader() -> Iterator[Tensor]:
        yield from rows(2)
        raise OSError("disk")

    model = net()
    guard = StepGuard(model, adam(model), accumulate=4)
    with pytest.raises(OSError, match="disk"):
        run(model, guard, loader())
    assert guard.counts.windows == 1


def test_no_batches_and_no_gradients_are_no_error() -> None:
    model = net()
    guard = StepGuard(model, adam(model), scaler=torch.amp.GradScaler("cpu"))
    run(model, guard, [])
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    free = nn.Parameter(torch.ones(()))
    guard.backward(free * 2)
    assert guard.finish() is False


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda model: StepGuard(model, adam(model), accumulate=0), "accumulate is 0"),
        (lambda model: StepGuard(model, adam(model), clip=-1), "clip is -1"),
        (lambda model: StepGuard(model, torch.optim.LBFGS(model.parameters())), "LBFGS"),
        (lambda model: StepGuard(model, adam(model)).backward(torch.ones(3)), "one element"),
        (lambda model: StepGuard(model, adam(model)).backward(model(rows(1)[0]).mean(), weight=-1), "weight is -1"),
        (lambda model: StepGuard(model, adam(model)).backward(model(rows(1)[0]).mean(), weight=NAN), "weight is nan"),
    ],
)
def test_a_call_that_cannot_work_says_what_to_do(wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        wrong(net())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda model: StepGuard(adam(model), model), "a module in the first place, not AdamW"),
        (lambda model: StepGuard(model, None), "an optimizer in the second place, not NoneType"),
        (lambda model: StepGuard(model, adam(model), scaler=True), "give a GradScaler"),
    ],
)
def test_things_in_the_wrong_place_are_named(wrong: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        wrong(net())


def test_a_loop_that_calls_backward_itself_is_told_that_it_trains_nothing() -> None:
    model = net()
    guard = StepGuard(model, adam(model))

    def usual() -> None:
        for batch in guard.batches(rows(3)):
            loss_of(model, batch).backward()  # type: ignore[no-untyped-call]

    with pytest.warns(UserWarning, match="called for none of 3 batches"):
        usual()
    assert guard.counts.windows == 0


def test_a_skip_is_told_at_the_line_of_the_loop() -> None:
    model = net()
    guard = StepGuard(model, adam(model))
    with pytest.warns(UserWarning, match="skipped step 0") as told:
        run(model, guard, rows(1), bad=[0])
    assert told[0].filename == run.__code__.co_filename


def test_two_backwards_for_one_batch_are_refused() -> None:
    model = net()
    guard = StepGuard(model, adam(model))
    for batch in guard.batches(rows(2)):
        guard.backward(loss_of(model, batch))
        again = loss_of(model, batch)
        with pytest.raises(RuntimeError, match="add the losses"):
            guard.backward(again)


def test_sparse_complex_half_and_missing_gradients() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(10, 4, sparse=True)
            self.phase = nn.Parameter(torch.ones(4, dtype=torch.complex64))
            self.unused = nn.Parameter(torch.ones(3))
            self.small = nn.Parameter(torch.full((4,), 1.1, dtype=torch.float16))
            self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
            self.empty = nn.Parameter(torch.ones(0, 3))

        def forward(self, index: Tensor) -> Tensor:
            value = self.words(index) * self.phase.abs() + self.small.float() * 300 + self.empty.sum()
            return cast("Tensor", value.square().mean())

    model = Odd()
    guard = StepGuard(model, torch.optim.SGD(model.parameters(), lr=0.0), clip=1.0)
    seen: list[float] = []
    guard._stepping.optimizers[0].register_step_pre_hook(lambda *_: seen.append(total(model)))
    for index in (torch.tensor([1, 1, 2]), torch.tensor([3, 3, 3])):
        guard.backward(model(index))
        assert guard.stepped
        assert guard.norm is not None
        assert guard.norm.isfinite()
    assert seen == pytest.approx([1.0, 1.0], rel=1e-2)


def total(model: nn.Module) -> float:
    parts = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    parts = [part.to_dense() if part.is_sparse else part for part in parts]
    return math.sqrt(sum(float(part.abs().float().square().sum()) for part in parts))


class Norms(NamedTuple):
    total: Tensor


@pytest.mark.parametrize("answer", [lambda norm: norm, Norms, float, lambda _: None])
def test_clip_may_be_any_function_of_the_model(answer: Any) -> None:
    model = net()
    guard = StepGuard(model, adam(model), clip=lambda model: answer(nn.utils.clip_grad_norm_(model.parameters(), 0.5)))
    run(model, guard, rows(4), bad=[2])
    assert (guard.counts.stepped, guard.counts.skipped) == (3, 1)


def test_the_free_function_needs_no_ranks() -> None:
    model = net()
    assert bool(agree_finite(model.parameters()))
    loss = loss_of(model, rows(1)[0])
    loss.backward()  # type: ignore[no-untyped-call]
    assert bool(agree_finite(model, loss))
    assert not bool(agree_finite(model, loss * NAN))
    next(model.parameters()).grad[0, 0] = INF  # type: ignore[index]
    assert not bool(agree_finite(model))


@pytest.mark.parametrize(
    ("logs", "hidden"),
    [
        ({"loss": 0.0, "grad_norm": NAN}, True),
        ({"loss": 1.2, "grad_norm": torch.tensor(NAN)}, True),
        ({"loss": 0.0, "grad_norm": 0.5}, False),
        ({"loss": 0.0, "grad_norm": INF}, True),
        ({"loss": 1.2, "grad_norm": INF}, False),
        ({"loss": NAN, "grad_norm": NAN}, False),
        ({"eval_loss": 0.0}, False),
        ({"loss": "0.1234", "grad_norm": "nan"}, True),
    ],
)
def test_a_log_that_hides_nan_is_called_out(logs: dict[str, Any], *, hidden: bool) -> None:
    assert (masked_nan(logs, nan_filter=True) is not None) is hidden


def test_a_look_at_a_log_loads_no_torch() -> None:
    code = "import sys; from crashcart.train import masked_nan; masked_nan({}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_compiled_step_breaks_once_and_is_the_same() -> None:
    model, plain = net(), net()
    guard, other = StepGuard(model, adam(model), clip=1.0), StepGuard(plain, adam(plain), clip=1.0)

    def step(batch: Tensor) -> None:
        guard.backward(loss_of(model, batch))

    torch._dynamo.reset()
    compiled = torch.compile(step, backend="eager")
    for batch in guard.batches(rows(12)):
        compiled(batch)
    run(plain, other, rows(12))
    assert weights(model) == pytest.approx(weights(plain), abs=1e-7)
    assert torch._dynamo.utils.counters["frames"]["total"] <= 3
