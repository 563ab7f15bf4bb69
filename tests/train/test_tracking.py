"""Logging never blocks, slows or kills training, and the local copy holds what the tracker missed."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from crashcart.train import nonblocking, sync_tracker
from crashcart.train.tracking.copy import rows
from crashcart.train.tracking.sync import copies

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = str(Path(__file__).parent / "programs" / "tracked.py")
LIMIT = 60


class Tracker:
    """Takes rows while its gate is open."""

    def __init__(self, name: str = "plain") -> None:
        self.name = name
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def log(self, *args: Any, **kwargs: Any) -> None:
        self.gate.wait(20)
        self.calls.append(("log", args, kwargs))

    def add_scalar(self, *args: Any) -> None:
        self.calls.append(("add_scalar", args, {}))

    def start_run(self) -> Tracker:
        return Tracker("run")

    def compute(self, number: int) -> int:
        return number + 1

    def finish(self) -> None:
        self.calls.append(("finish", (), {}))


class Broken(Tracker):
    def log(self, *_args: Any, **_kwargs: Any) -> None:
        raise ConnectionError("no route to host")

    def start_run(self) -> Tracker:
        raise ConnectionError("no route to host")


def run(scenario: str, folder: Path, limit: float = LIMIT, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, scenario, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "WANDB_SILENT": "true", **variables},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


def kept(folder: Path) -> list[dict[str, Any]]:
    return [row for one in copies(str(folder)) for row in rows(one)]


@pytest.fixture
def mute_server() -> Iterator[str]:
    """Takes connections, answers nothing."""
    taken = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.append(server.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_wandb_alone_does_not_get_past_a_server_that_never_answers(tmp_path: Path, mute_server: str) -> None:
    program = subprocess.Popen(
        [sys.executable, PROGRAM, "usual_wandb", str(tmp_path)],
        env={**os.environ, "WANDB_SILENT": "true", "WANDB_BASE_URL": mute_server, "WANDB_API_KEY": "a" * 40},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(15)
    finally:
        program.terminate()  # a killed one would leave wandb's service behind
        try:
            program.wait(3)
        except subprocess.TimeoutExpired:
            program.kill()
    assert program.stdout is not None
    assert "trained" not in program.stdout.read()


def test_ours_trains_on_with_a_server_that_never_answers_and_ends_within_its_limit(tmp_path: Path, mute_server: str) -> None:
    begin = time.monotonic()
    done = run("our_wandb", tmp_path / "copy", 40, WANDB_BASE_URL=mute_server, WANDB_API_KEY="a" * 40)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["run unknown unknown True", "trained"]
    assert time.monotonic() - begin < 25
    assert [row["args"] for row in kept(tmp_path / "copy")][:2] == [[{"loss": 1.0}], [{"depth": 0}]]
    assert len(kept(tmp_path / "copy")) == 100
    assert "100 of 100 rows did not reach wandb" in done.stderr
    assert "aaaaaaaa" not in "".join(path.read_text() for path in (tmp_path / "copy").rglob("*.json*"))


def test_wandb_offline_gets_every_row_and_sends_the_copy_again_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    import wandb as theirs

    wandb = nonblocking(theirs, tmp_path / "copy")
    with wandb.init(project="ours", dir=str(tmp_path), config={"rate": 1e-4}) as logged:
        assert logged.config.rate == 1e-4
        assert len(logged.id) == 8
        for step in range(20):
            wandb.log({"loss": step}, step=step, commit=False)
            wandb.run.log({"rate": 0.1, "picture": wandb.Image(np.zeros((9, 9), dtype=np.uint8))})
    assert wandb.counts == {"rows": 40, "lost": 0, "dropped": 0, "failed": 0, "delivered": 40}
    assert theirs.run is None
    assert len(list((tmp_path / "copy").glob("*/media/*.png"))) == 20
    (folder,) = copies(str(tmp_path / "copy"))
    os.remove(os.path.join(folder, "sent.txt"))
    command = [sys.executable, "-m", "crashcart.train.tracking.sync", str(tmp_path / "copy")]
    told = [subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout for _ in range(2)]
    assert "40 rows sent" in told[0]
    assert "nothing left to send" in told[1]


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
    assert time.monotonic() - begin < 20
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


def test_tensorboard_on_a_full_disk_does_not_end_training(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    assert run("usual_tensorboard", tmp_path / "usual").returncode != 0  # without us it does
    done = run("full_tensorboard", tmp_path)
    assert done.stdout == "trained\n", done.stderr
    assert done.returncode == 0


def test_mlflow_gets_the_rows_of_the_run_that_was_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    theirs.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    mlflow = nonblocking(theirs, tmp_path / "copy", call_seconds=60)
    with theirs.start_run() as outside:
        for step in range(5):
            mlflow.log_metric("loss", step, step=step)
        mlflow.log_param("rate", 0.1)
        mlflow.set_tag("who", "us")
        mlflow._channel().flush(60)
    with mlflow.start_run() as inside:
        mlflow.log_metrics({"loss": 7.0}, step=1)
        name = inside.info.run_id
    client = theirs.MlflowClient()
    assert [metric.value for metric in client.get_metric_history(outside.info.run_id, "loss")] == [0, 1, 2, 3, 4]
    data = client.get_run(outside.info.run_id).data
    assert (data.params["rate"], data.tags["who"]) == ("0.1", "us")
    assert client.get_run(name).data.metrics == {"loss": 7.0}
    assert client.get_run(name).info.status == "FINISHED"
    assert len(client.search_runs(["0"])) == 2
    assert mlflow.counts["failed"] == 0


def test_trackio_gets_the_rows_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    theirs = pytest.importorskip("trackio", reason="trackio is not installed")
    trackio = nonblocking(theirs, tmp_path / "copy", call_seconds=60, exit_seconds=30)
    trackio.init(project="ours", name="first")
    for step in range(5):
        trackio.log({"loss": float(step)})
    trackio.finish()
    assert trackio.counts["delivered"] == 5
    assert trackio.counts["failed"] == 0


def test_tensorboard_gets_scalars_and_figures_as_they_were(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    events_of = importlib.import_module("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = nonblocking(SummaryWriter(str(tmp_path / "board")), tmp_path / "copy")
    figure = pyplot.figure(figsize=(1, 1))
    for step in range(5):
        writer.add_scalar("loss", torch.tensor(float(step)), step)
    writer.add_figure("plot", figure, 3)
    figure.clf()
    writer.close()
    events = events_of(str(tmp_path / "board")).Reload()
    assert [event.value for event in events.Scalars("loss")] == [0, 1, 2, 3, 4]
    assert [event.step for event in events.Images("plot")] == [3]
