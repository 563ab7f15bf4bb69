"""A run that goes on is the run that was left off; where it would not be, it is said."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crashcart.train import ResumeError, newest_valid, resume, save_atomic, state_of


def parts(lr: float = 0.1, period: int = 50) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, period)


def train(model: nn.Module, optimizer: Any, scheduler: Any, steps: range) -> list[float]:
    losses = []
    for _ in steps:
        batch = torch.randn(16, 4) + random.random() + float(np.random.rand())  # noqa: NPY002 - the generator that most use
        loss = (model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def seed() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the generator that most use


def test_the_usual_resume_is_another_run_and_ours_is_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Weights alone, with the rate, the moments and the random numbers of a first step; against one that was never stopped."""
    seed()
    whole = parts()
    expected = train(*whole, range(20)) + train(*whole, range(20, 30))
    seed()
    model, optimizer, scheduler = parts()
    before = train(model, optimizer, scheduler, range(20))
    save_atomic(
        state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=20, loss=before[-1]), tmp_path / "step-20.pt"
    )

    seed()
    usual = parts()
    usual[0].load_state_dict(torch.load(tmp_path / "step-20.pt", weights_only=True)["model"])
    assert train(*usual, range(20, 30)) != expected[20:]
    assert usual[1].param_groups[0]["lr"] != whole[1].param_groups[0]["lr"]

    random.seed(99)
    model, optimizer, scheduler = parts()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = resume(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler)
    assert train(model, optimizer, scheduler, range(run.step, 30)) == expected[20:]
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"resumed {tmp_path / 'step-20.pt'}: step 20, lr 0.06545, loss ")
    assert lines[0].endswith("all as it was saved")
    assert all(run.check(loss) for loss in expected[20:])


def test_another_rate_is_told(tmp_path: Path) -> None:
    model, optimizer, scheduler = parts(lr=0.1)
    train(model, optimizer, scheduler, range(3))
    save_atomic(state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=3), tmp_path / "a.pt")
    model, optimizer, scheduler = parts(lr=0.01, period=80)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.warns(UserWarning, match="resumed from a.pt") as told:
        run = resume(tmp_path / "a.pt", model=model, optimizer=optimizer, scheduler=scheduler)
    assert [str(one.message).removeprefix("resumed from a.pt: ") for one in told] == list(run.doubts)
    assert run.doubts == (
        "lr goes on from 0.1 as saved, while the program had set 0.01",
        "weight_decay is 0.01 as saved, while the program had set 0.5",
        "the scheduler's T_max is 50 as saved, while the program had set 80",
    )


def test_a_loss_that_needs_a_gradient_is_taken_without_a_word_of_torch(tmp_path: Path) -> None:
    model, optimizer, _ = parts()
    loss = model(torch.ones(2, 4)).square().mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = state_of(model=model, optimizer=optimizer, step=1, loss=loss)
        save_atomic(state, tmp_path / "step-1.pt")
        run = resume(tmp_path, model=model, optimizer=optimizer)
        assert run.loss == state["loss"] == loss.item()
        run.check(loss)


def test_what_is_left_behind_is_told(tmp_path: Path) -> None:
    model, optimizer, scheduler = parts()
    save_atomic(state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=3), tmp_path / "a.pt")
    with pytest.warns(UserWarning, match="here it starts anew") as told:
        resume(tmp_path / "a.pt", model=parts()[0])
    assert [str(one.message).split(" of the ")[1].split(",")[0] for one in told] == ["optimizer", "scheduler"]


def test_an_optimizer_that_was_not_saved_is_an_error(tmp_path: Path) -> None:
    model, optimizer, _ = parts()
    save_atomic({"model": model.state_dict()}, tmp_path / "a.pt")
    with pytest.raises(ResumeError, match=r"holds no optimizer; leave optimizer= out to go on without it\. It holds model"):
        resume(tmp_path / "a.pt", model=model, optimizer=optimizer)


def test_step_name_and_scheduler_must_agree(tmp_path: Path) -> None:
    model, optimizer, scheduler = parts()
    save_atomic(state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=500), tmp_path / "step-400.pt")
    model, optimizer, scheduler = parts()
    with pytest.warns(UserWarning, match="step 400"):
        run = resume(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler)
    assert run.doubts == ("its name says step 400, and inside is step 500", "the scheduler has made 0 steps, the run 500")


@pytest.mark.parametrize(
    ("step", "epoch", "count"), [(100, 0, 100), (100, 3, 3), (100, 3, 4), (100, 0, 25), (100, 0, 400), (100, 0, 97)]
)
def test_a_scheduler_may_count_steps_epochs_or_windows(tmp_path: Path, step: int, epoch: int, count: int) -> None:
    model, optimizer, scheduler = parts(period=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            scheduler.step()
    save_atomic(state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=step, epoch=epoch), tmp_path / "a.pt")
    model, optimizer, scheduler = parts(period=1000)
    assert resume(tmp_path / "a.pt", model=model, optimizer=optimizer, scheduler=scheduler).doubts == ()


def test_a_rate_that_the_scheduler_does_not_know_is_told(tmp_path: Path) -> None:
    model, optimizer, scheduler = parts()
    optimizer.param_groups[0]["lr"] = 0.03
    save_atomic(state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=1), tmp_path / "a.pt")
    model, optimizer, scheduler = parts()
    with pytest.warns(UserWarning, match="the scheduler stands at lr 0.1, the optimizer at 0.03"):
        resume(tmp_path / "a.pt", model=model, optimizer=optimizer, scheduler=scheduler)


def test_the_place_in_the_data(tmp_path: Path) -> None:
    model = parts()[0]
    data = torch.utils.data.TensorDataset(torch.arange(40))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    save_atomic(state_of(model=model, loader=loader, step=13, epoch=1, batch=3), tmp_path / "a.pt")
    with pytest.warns(UserWarning, match="where 3 batches had been seen: skip them"):
        run = resume(tmp_path / "a.pt", model=model, loader=loader)
    assert (run.step, run.epoch, run.batch) == (13, 1, 3)
    other = torch.utils.data.DataLoader(data, batch_size=8)
    with pytest.warns(UserWarning, match="an epoch has 5 batches now, it had 10"):
        resume(tmp_path / "a.pt", model=model, loader=other)
    sampler: Any = torch.utils.data.DistributedSampler(data, num_replicas=2, rank=0)
    sampler.set_epoch(4)
    save_atomic(state_of(model=model, sampler=sampler, step=1), tmp_path / "b.pt")
    sampler.set_epoch(0)
    assert resume(tmp_path / "b.pt", model=model, sampler=sampler).doubts == ()
    assert sampler.epoch == 4


def test_a_loss_that_jumps_after_the_resume_is_told(tmp_path: Path) -> None:
    model, optimizer, _ = parts()
    save_atomic(state_of(model=model, optimizer=optimizer, step=5, loss=torch.tensor(0.4)), tmp_path / "a.pt")
    run = resume(tmp_path / "a.pt", model=model, optimizer=optimizer)
    assert [run.check(torch.tensor(loss)) for loss in (0.5, 0.3, 0.9, 0.4)] == [True] * 4
    assert run.check(0.5)
    assert run.check(50.0)  # no longer the first
    run = resume(tmp_path / "a.pt", model=model, optimizer=optimizer)
    with pytest.warns(UserWarning, match=r"the loss is 2.3 over the first 5 steps, it was 0.4 when it was saved"):
        assert [run.check(2.3) for _ in range(6)] == [True] * 4 + [False, True]
    run = resume(tmp_path / "a.pt", model=model, optimizer=optimizer)
    optimizer.param_groups[0]["lr"] = 7.0
    with pytest.warns(UserWarning, match="after the resume at step 5") as told:
        assert not run.check(float("nan"))
    assert [str(one.message).split(": ")[1] for one in told] == [
        "the loss is nan",
        "the learning rate is 7, it was 0.1 when it was saved",
    ]


def test_weights_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    model = parts()[0]
    next(model.parameters()).data[0, 0] = float("nan")
    save_atomic(state_of(model=model, step=1), tmp_path / "a.pt")
    with pytest.warns(UserWarning, match="1 tensors of the model are not finite, the first is 0.weight"):
        resume(tmp_path / "a.pt", model=model)


def wrapped(kind: str, model: nn.Module) -> nn.Module:
    for one in kind.split():
        model = nn.DataParallel(model) if one == "parallel" else torch.compile(model) if one == "compiled" else model  # type: ignore[assignment]
    return model


class Holder(nn.Module):
    """One whose own names look like those of a wrapper."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 2)


@pytest.mark.parametrize("saved", ["", "parallel", "compiled", "compiled parallel", "parallel compiled"])
@pytest.mark.parametrize("loaded", ["", "parallel compiled"])
@pytest.mark.parametrize("make", [lambda: nn.Linear(2, 3), Holder])
def test_wrappers_do_not_matter(tmp_path: Path, saved: str, loaded: str, make: Any) -> None:
    """Whether `state_of` or the user's own `state_dict` made the names."""
    first, second, third = make(), make(), make()
    save_atomic(state_of(model=wrapped(saved, first), step=1), tmp_path / "a.pt")
    save_atomic({"model": wrapped(saved, first).state_dict(), "step": 1}, tmp_path / "b.pt")
    resume(tmp_path / "a.pt", model=wrapped(loaded, second))
    resume(tmp_path / "b.pt", model=wrapped(loaded, third))
    for other in (second, third):
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_a_part_that_is_compiled_inside_does_not_matter_either(tmp_path: Path) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

    first, second = make(), make()
    first[1] = torch.compile(first[1])  # type: ignore[index,operator]
    save_atomic(state_of(model=first, step=1), tmp_path / "a.pt")
    assert "1.weight" in torch.load(tmp_path / "a.pt", weights_only=True)["model"]
    resume(tmp_path / "a.pt", model=second)
    resume(tmp_path / "a.pt", model=first)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_another_model_is_refused_before_anything_changes(tmp_path: Path) -> None:
    save_atomic(state_of(model=nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), step=1), tmp_path / "a.pt")
    for other, words in (
        (nn.Sequential(nn.Linear(2, 2)), r"2 unexpected \(1.weight, 1.bias\)"),
        (nn.Sequential(*[nn.Linear(2, 2) for _ in range(5)]), r"6 missing \(2.weight, 2.bias, 3.weight, 3.bias, \.\.\.\)"),
        (
            nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)),
            r"1 tensors have another shape \(0.weight: \(2, 2\) saved, \(2, 3\) here\)",
        ),
    ):
        weights = [one.clone() for one in other.parameters()]
        with pytest.raises(ResumeError, match=f"The model in .*a.pt does not fit: {words}"):
            resume(tmp_path / "a.pt", model=other)
        assert all(torch.equal(a, b) for a, b in zip(weights, other.parameters(), strict=True))
    larger = nn.Sequential(*[nn.Linear(2, 2) for _ in range(5)])
    resume(tmp_path / "a.pt", model=larger, strict=False)


def test_several_models_and_optimizers(tmp_path: Path) -> None:
    models = {"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1 * (n + 1)) for n, one in enumerate(models.values())]
    save_atomic(state_of(model=models, optimizer=optimizers, step=1), tmp_path / "a.pt")
    others = {"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}
    again = [torch.optim.SGD(one.parameters(), lr=0.1 * (n + 1)) for n, one in enumerate(others.values())]
    run = resume(tmp_path / "a.pt", model=others, optimizer=again)
    assert run.lr == (0.1, 0.2)
    assert torch.equal(models["d"].weight, others["d"].weight)
    with pytest.raises(ResumeError, match=r"The optimizer in .* does not fit: 2 were saved, 1 are given"):
        resume(tmp_path / "a.pt", model=others, optimizer=again[:1])


@pytest.mark.parametrize(
    "names", [("model_state_dict", "optimizer_state_dict", "global_step"), ("state_dict", "optim", "iteration")]
)
def test_the_names_of_others(tmp_path: Path, names: tuple[str, str, str]) -> None:
    model, optimizer, _ = parts()
    torch.save(
        {names[0]: model.state_dict(), names[1]: optimizer.state_dict(), names[2]: 7, "args": {"a": 1}}, tmp_path / "x.pt"
    )
    run = resume(tmp_path / "x.pt", model=model, optimizer=optimizer)
    assert run.step == 7
    assert run.more["args"] == {"a": 1}


def test_nothing_to_resume_begins_at_zero(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "new"):
        run = resume(place, model=parts()[0])
        assert not run
        assert (run.step, run.epoch) == (0, 0)
        assert run.check(3.0)
        assert str(run) == "nothing was resumed: this run begins at step 0"
        assert capfd.readouterr().err == f"nothing to resume in {place}: this run begins at step 0\n"
    with pytest.raises(FileNotFoundError, match="There is no checkpoint"):
        resume(tmp_path / "gone.pt")


def test_damaged_checkpoints_are_left_out_and_never_overwritten_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = parts()[0]
    save_atomic(state_of(model=model, step=1), tmp_path / "step-1.pt")
    (tmp_path / "step-2.pt").write_bytes((tmp_path / "step-1.pt").read_bytes()[:500])
    assert resume(tmp_path, model=model).step == 1
    assert "step-2.pt is left out" in caplog.text
    with pytest.raises(ResumeError, match=r"step-2\.pt is not whole"):
        resume(tmp_path / "step-2.pt", model=model)
    (tmp_path / "step-1.pt").unlink()
    with pytest.raises(ResumeError, match=r"No checkpoint in .* is whole \(step-2.pt\); move them away"):
        resume(tmp_path, model=model)


def test_python_objects_are_refused_unless_asked_for(tmp_path: Path) -> None:
    model = parts()[0]
    save_atomic(state_of(model=model, step=1, settings=Path("a")), tmp_path / "a.pt")
    with pytest.raises(ResumeError, match="weights_only=False if you trust it"):
        resume(tmp_path / "a.pt", model=model)
    assert resume(tmp_path / "a.pt", model=model, weights_only=False).more["settings"] == Path("a")


def test_every_scheduler_of_torch_comes_back(tmp_path: Path) -> None:
    rates = torch.optim.lr_scheduler
    made: list[Any] = [
        lambda one: rates.MultiStepLR(one, [2, 4]),
        lambda one: rates.OneCycleLR(one, 0.1, total_steps=50),
        rates.ReduceLROnPlateau,
        lambda one: rates.SequentialLR(one, [rates.LinearLR(one), rates.ExponentialLR(one, 0.9)], [3]),
        lambda one: rates.LambdaLR(one, lambda step: 1 / (step + 1)),
        lambda one: rates.CosineAnnealingWarmRestarts(one, 5),
    ]
    for make in made:
        runs = []
        for _ in range(2):
            model = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            runs.append((model, optimizer, make(optimizer)))
        (model, optimizer, scheduler), (other, again, restored) = runs
        for _ in range(4):
            optimizer.step()
            scheduler.step(*([1.0] if isinstance(scheduler, rates.ReduceLROnPlateau) else []))
        save_atomic(state_of(model=model, optimizer=optimizer, scheduler=scheduler, step=4), tmp_path / "a.pt")
        assert resume(tmp_path / "a.pt", model=other, optimizer=again, scheduler=restored).doubts == ()
        for one, its in ((optimizer, scheduler), (again, restored)):
            one.step()
            its.step(*([1.0] if isinstance(its, rates.ReduceLROnPlateau) else []))
        assert again.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_a_scaler_comes_back(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    save_atomic(state_of(scaler=scaler, step=1), tmp_path / "a.pt")
    other = torch.amp.GradScaler("cpu")
    resume(tmp_path / "a.pt", scaler=other)
    assert other.state_dict()["scale"] == 128.0


def test_a_folder_of_a_framework_is_named(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    from crashcart.train import atomic_folder

    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))
    with atomic_folder(tmp_path / "checkpoint-5") as folder:
        accelerator.save_state(str(folder))
    assert newest_valid(tmp_path) == tmp_path / "checkpoint-5"
    with pytest.raises(ResumeError, match=r"checkpoint-5 is a folder of a framework: load it there"):
        resume(tmp_path, model=model, optimizer=optimizer)
    accelerator.load_state(str(newest_valid(tmp_path)))


def test_what_others_keep_under_our_names_does_not_matter(tmp_path: Path) -> None:
    model = parts()[0]
    torch.save(
        {
            "model": model.state_dict(),
            "epoch": "best",
            "loss": torch.ones(3),
            "random": {"seed": 1},
            "step": torch.tensor(7),
        },
        tmp_path / "a.pt",
    )
    with pytest.warns(UserWarning, match="the random states could not be restored"):
        run = resume(tmp_path / "a.pt", model=model)
    assert (run.step, run.epoch, run.loss) == (7, 0, None)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_run_on_a_gpu_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """With dropout, whose random numbers are the card's, and a scaler."""

    def made() -> tuple[nn.Module, torch.optim.Optimizer, Any]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.Linear(64, 16)).cuda()
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3), torch.amp.GradScaler("cuda")

    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any, count: int) -> list[float]:
        losses = []
        for _ in range(count):
            batch = torch.randn(32, 16, device="cuda")
            with torch.autocast("cuda", torch.float16):
                loss = (model(batch) - batch).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    model, optimizer, scaler = made()
    steps(model, optimizer, scaler, 10)
    save_atomic(state_of(model=model, optimizer=optimizer, scaler=scaler, step=10), tmp_path / "step-10.pt")
    expected = steps(model, optimizer, scaler, 10)
    model, optimizer, scaler = made()
    run = resume(tmp_path, model=model, optimizer=optimizer, scaler=scaler)
    assert run.doubts == ()
    assert steps(model, optimizer, scaler, 10) == expected
