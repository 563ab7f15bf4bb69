"""Logging never blocks, slows or kills training, and the local copy holds what the tracker missed."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from watched import Broken, Tracker, kept, run

from crashcart.train import nonblocking, sync_tracker
from crashcart.train.tracking.copy import rows
from crashcart.train.tracking.sync import copies

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("folder", "says"), [("empty", "holds no local copy of a tracker"), ("gone", "cannot be read: No such")]
)
def test_sending_a_folder_without_a_copy_is_a_sentence(tmp_path: Path, folder: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-m", "crashcart.train.tracking.sync", str(tmp_path / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_tracker_that_raises_on_every_call_is_told_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = nonblocking(Broken(), tmp_path)
    for step in range(30):
        tracker.log({"loss": step})
    begun = tracker.start_run()
    begun.log({"x": 1})
    assert str(begun.name) == "unknown"
    tracker.close()
    assert tracker.counts["failed"] == 32
    assert len([line for line in caplog.messages if "ConnectionError: no route to host" in line]) == 1
    assert len(kept(tmp_path)) == 31
    with pytest.raises(AttributeError):
        tracker.lgo({"loss": 1})


def test_what_is_logged_is_what_it_was_then(tmp_path: Path) -> None:
    inner = Tracker()
    tracker = nonblocking(inner, tmp_path)
    inner.gate.clear()
    weight = torch.nn.Parameter(torch.arange(100.0))
    loss, array, nested = torch.tensor(2.5, requires_grad=True), np.arange(3), {"deep": [1, {"x": torch.tensor([1, 2])}]}
    tracker.log(
        {"loss": loss, "weight": weight, "array": array, "nested": nested, "half": torch.ones(3, dtype=torch.bfloat16)}
    )
    with torch.no_grad():
        loss.fill_(-1)
        weight.fill_(-1)
    array[:] = -1
    nested["deep"][1]["x"].fill_(-1)  # type: ignore[index]
    nested.clear()
    inner.gate.set()
    tracker.close()
    row = inner.calls[0][1][0]
    assert row["loss"] == 2.5
    assert torch.equal(row["weight"], torch.arange(100.0))
    assert row["array"].tolist() == [0, 1, 2]
    assert row["nested"]["deep"][1]["x"].tolist() == [1, 2]
    (line,) = kept(tmp_path)
    assert line["args"][0]["nested"] == {"deep": [1, {"x": [1, 2]}]}
    assert line["args"][0]["half"] == [1.0, 1.0, 1.0]
    (folder,) = copies(str(tmp_path))
    assert np.load(os.path.join(folder, line["args"][0]["weight"]["file"])).tolist() == list(range(100))


def test_odd_values_reach_the_copy_or_are_named(tmp_path: Path) -> None:
    circle: list[Any] = []
    circle.append(circle)
    inner = Tracker()
    tracker = nonblocking(inner, tmp_path)
    for value in (
        float("nan"),
        {(1, 2): 3},
        circle,
        object(),
        {1, 2},
        torch.empty(0),
        np.float32(1.5),
        "\ud800",
        None,
        b"x",
    ):
        tracker.log({"value": value})
    tracker.log()
    tracker.close()
    assert len(inner.calls) == 11
    assert len(kept(tmp_path)) == 11
    assert kept(tmp_path)[6]["args"] == [{"value": 1.5}]
    assert kept(tmp_path)[3]["args"] == [{"value": {"not_kept": "builtins.object"}}]


def test_a_slow_tracker_misses_rows_and_gets_them_later_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inner = Tracker()
    inner.gate.clear()
    tracker = nonblocking(inner, tmp_path, rows=10, exit_seconds=20)
    for step in range(100):
        tracker.log({"loss": step}, step=step)
    until = time.monotonic() + 10
    while len(kept(tmp_path)) < 100 and time.monotonic() < until:
        time.sleep(0.05)
    inner.gate.set()
    tracker.close()
    took = [call[2]["step"] for call in inner.calls]
    missed = tracker.counts["dropped"]
    assert took == sorted(took)
    assert len(took) + missed == 100
    assert missed >= 85
    assert len([line for line in caplog.messages if "does not keep up" in line]) == 1
    other = Tracker()
    assert sync_tracker(tmp_path, other) == missed
    assert [call[2]["step"] for call in other.calls] == sorted(set(range(100)) - set(took))
    assert sync_tracker(tmp_path, other) == 0
    assert sync_tracker(tmp_path, other, everything=True) == 100


def test_the_rest_of_the_tracker_is_its_own(tmp_path: Path) -> None:
    inner = Tracker()
    tracker = nonblocking(inner, tmp_path)
    assert tracker.name == "plain"
    assert tracker.compute(3) == 4
    tracker.name = "renamed"
    assert inner.name == "renamed"
    tracker.add_scalar("loss", 1.0, 2)
    with tracker.start_run() as begun:
        assert begun.name == "run"
        begun.log({"x": 1})
    tracker.finish()
    assert [call[0] for call in inner.calls] == ["add_scalar", "finish"]
    assert nonblocking(tracker) is tracker
    assert copy.deepcopy(tracker) is tracker


def test_a_summary_that_looks_its_attributes_up_as_values_does_not_end_training(tmp_path: Path) -> None:
    class Summary(dict[str, float]):
        def __getattr__(self, name: str) -> float:
            return self[name]  # as wandb's: a KeyError, and no AttributeError

    tracker = Tracker()
    tracker.summary = Summary()  # type: ignore[attr-defined]
    with pytest.raises(KeyError):
        getattr(tracker.summary, "log", None)  # type: ignore[attr-defined]
    nonblocking(tracker, tmp_path).summary["best"] = 1.0
    assert tracker.summary == {"best": 1.0}  # type: ignore[attr-defined]


def test_what_a_module_has_only_with_a_run_takes_everything_where_none_came(tmp_path: Path) -> None:
    def init() -> None:
        raise ConnectionError("no route to host")

    class Before:
        def __getattr__(self, name: str) -> None:
            raise RuntimeError(f"You must call init() before config.{name}")

    module = ModuleType("elsewhere")
    module.init, module.config, module.use_artifact = init, Before(), init  # type: ignore[attr-defined]
    tracker = nonblocking(module, tmp_path)
    with pytest.raises(RuntimeError):  # nobody has asked for a run yet
        tracker.config.update({"lr": 1})
    run = tracker.init()
    assert not run
    run.config.update({"lr": 1})
    tracker.config.update({"lr": 1})
    tracker.watch(None)
    tracker.run.summary["best"] = 1
    with pytest.raises(ConnectionError):  # to train without one's data is worse
        tracker.use_artifact()


def test_an_end_that_hangs_is_not_told_as_rows_that_did_not_arrive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = Tracker()
    tracker.finish = lambda: time.sleep(5)  # type: ignore[method-assign]
    ours = nonblocking(tracker, tmp_path, exit_seconds=0.5)
    ours.log({"loss": 1.0})
    ours.finish()
    ours._channel().exit()
    assert [record.getMessage() for record in caplog.records] == [
        "Tracker: finish has not returned within 0.5 s; the program goes on"
    ]


def test_an_unpickled_one_keeps_a_copy_of_its_own(tmp_path: Path) -> None:
    there = pickle.loads(pickle.dumps(nonblocking(Tracker(), tmp_path)))  # noqa: S301 - our own
    there.log({"x": 1})
    there.finish()
    there.close()
    until = time.monotonic() + 10
    while not kept(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert [row["args"] for row in kept(tmp_path)] == [[{"x": 1}]]


def test_importing_it_loads_neither_torch_nor_a_tracker() -> None:
    code = "import sys; from crashcart.train import nonblocking, sync_tracker, load_once; print({'torch', 'wandb', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("scenario", "code", "says"),
    [("hangs", 0, "trained\n"), ("leaves", 0, "trained 50\n"), ("never_ends", 0, "trained 50\n"), ("raises", 1, "")],
)
def test_training_ends_as_it_would_whatever_the_tracker_does(tmp_path: Path, scenario: str, code: int, says: str) -> None:
    begin = time.monotonic()
    done = run(scenario, tmp_path)
    assert (done.returncode, done.stdout) == (code, says), done.stderr
    assert time.monotonic() - begin < 90
    assert len(kept(tmp_path)) == (20 if scenario == "raises" else 50)
    assert done.stderr.count("training goes on") == (scenario in ("hangs", "leaves"))


@pytest.mark.parametrize(("scenario", "least", "most"), [("ends_once", 0.0, 3.0), ("several_hang", 3.5, 7.5)])
def test_trackers_that_hang_cost_the_limit_once(tmp_path: Path, scenario: str, least: float, most: float) -> None:
    done = run(scenario, tmp_path)
    after = time.monotonic()  # one clock for all processes of a machine
    assert done.returncode == 0, done.stderr
    trained, *rest = done.stdout.splitlines()
    assert least < after - float(trained) < most
    assert rest == (["slow one took it"] if scenario == "several_hang" else [])


def test_a_killed_process_leaves_a_copy_that_can_be_read(tmp_path: Path) -> None:
    assert run("killed", tmp_path).returncode == -9
    assert [row["kwargs"]["step"] for row in kept(tmp_path)] == list(range(100))
    other = Tracker()
    assert sync_tracker(tmp_path, other) == 0


def test_a_forked_worker_writes_its_own_copy_and_leaves_the_tracker_alone(tmp_path: Path) -> None:
    done = run("forked", tmp_path)
    assert done.stdout == "parent delivered 15\n", done.stderr
    assert sorted(len(list(rows(one))) for one in copies(str(tmp_path))) == [5, 15]


def test_a_full_disk_is_told_and_costs_the_tracker_nothing(tmp_path: Path) -> None:
    done = run("full", tmp_path)
    assert done.stdout == "tracker has 200\n", done.stderr
    assert done.stderr.count("the local copy cannot be written") == 1
    assert "rows of Tracker are missing in the local copy" in done.stderr
    assert 20 < len(kept(tmp_path)) < 100
