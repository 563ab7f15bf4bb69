"""wandb, tensorboard, mlflow and trackio themselves: without `nonblocking`, and with it."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from watched import PROGRAM, kept, run

from crashcart.train import nonblocking
from crashcart.train.tracking.sync import copies

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes


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
    assert time.monotonic() - begin < 90
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
