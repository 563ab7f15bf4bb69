"""What the inside part sees of real programs."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from inside_job import SET_UP, SIGNAL, environment, processes, run, script

if TYPE_CHECKING:
    from pathlib import Path
pytest.importorskip("torch")

pytestmark = pytest.mark.processes


def test_steps_rates_losses_batches_and_phases_are_seen(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        SET_UP
        + """
for epoch in range(2):
    for inputs, targets in DataLoader(data, batch_size=8):
        loss = step(inputs, targets)
    evaluate(DataLoader(data, batch_size=36))
    evaluate([])
    torch.save(model.state_dict(), "model.pt")
optimizer.param_groups[0]["lr"] = 0.1
loss = step(inputs, targets)
nan = step(inputs * float("nan"), targets)
torch.load("model.pt")
print(loss.item().hex())
""",
    )
    process = job.first
    page = process.page
    assert (page["steps"], page["train_batches"], page["eval_batches"]) == (12, 10, 2)
    assert (page["batch_size"], page["largest_batch"], page["largest_elements"]) == (36, 36, 36 * 5)
    assert (page["lr"], page["lr_highest"], page["checkpoints"], page["nonfinite"]) == (0.1, 0.1, 2, 1)
    assert math.isnan(page["loss"])
    assert page["loss_step"] == 11
    assert page["torch"] == 1
    assert math.isnan(page["rank"])
    assert [e["batches"] for e in process.of("phase", phase="evaluate", edge="end")] == [1, 0, 1, 0]
    assert [(e["bytes"], e["path"]) for e in process.of("checkpoint")] == [
        ((tmp_path / "model.pt").stat().st_size, str(tmp_path / "model.pt"))
    ] * 2
    assert [(e["step"], e["rates"]) for e in process.of("lr")] == [(1, [1e-3]), (11, [0.1])]
    assert [(e["what"], e["step"]) for e in process.of("nonfinite")] == [("loss", 11)]
    assert process.of("optimizer")[0]["parameters"] == 49
    assert [e["kind"] for e in process.events][-1] == "exit"
    assert process.phase == "exit"


def test_the_end_of_an_evaluation_is_seen_however_it_ends(tmp_path: Path) -> None:
    """`train()` of the model, flags that a trainer sets back one by one, gradients that are on again; a teacher is no evaluation."""
    job = run(
        tmp_path,
        SET_UP
        + """
print(nn.Module.train.__module__, hasattr(nn.Module.train, "_crashcart"))
teacher, averaged = nn.Linear(4, 8), nn.Linear(4, 1)
loader = DataLoader(data, batch_size=12)
teacher.eval()
for batch in loader:
    step(*batch)

model.eval()  # 1: three batches with gradients on, flags set back by hand
for inputs, _ in loader:
    model(inputs)
for module in model.modules():
    module.training = True
for batch in loader:
    step(*batch)
    teacher.eval()
    model[1].eval()

averaged.eval()  # 2: nobody calls eval() of the model
with torch.no_grad():
    for inputs, _ in loader:
        averaged(inputs)
for batch in loader:
    step(*batch)

evaluate([])  # 3: the program ends with an evaluation of nothing
""",
    )
    page = job.first.page
    ends = job.first.of("phase", phase="evaluate", edge="end")
    assert (page["steps"], page["train_batches"], page["eval_batches"], page["data_waits"]) == (9, 9, 6, 15)
    assert [(e["by"], e["batches"]) for e in ends] == [("train()", 3), ("gradients", 3), ("train()", 0)]
    assert job.out.split() == ["torch.nn.modules.module", "False"]


def test_a_model_whose_optimizer_holds_other_tensors_is_known_by_its_turns(tmp_path: Path) -> None:
    """Sharded optimizers hold flat tensors of their own: what goes back to training after `eval()` is evaluated from then on."""
    job = run(
        tmp_path,
        SET_UP
        + """
model = nn.Linear(4, 1)
flat = torch.zeros(5, requires_grad=True)
optimizer = torch.optim.SGD([flat], lr=0.1)
for epoch in range(3):
    flat.sum().backward()
    optimizer.step()
    evaluate([])
""",
    )
    assert [e["batches"] for e in job.first.of("phase", phase="evaluate", edge="end")] == [0, 0]


def test_a_scaler_that_skips_is_seen_and_the_loss_is_the_one_before_scaling(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        SET_UP
        + """
scaler = torch.amp.GradScaler("cpu")
torch.amp.GradScaler("cpu", enabled=False).update()
for number in range(6):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    if number in (2, 4):
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
""",
    )
    page = job.first.page
    assert (page["scale"], page["skipped"], page["steps"], page["nonfinite"]) == (65536 / 4, 2, 4, 2)
    assert page["loss"] == float(job.out)


def test_an_uncaught_exception_leaves_shapes_and_no_values(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        SET_UP
        + """
def work(images, password, numbers):
    return model(images)

step(torch.ones(2, 4), torch.ones(2, 1))
work(torch.zeros(2, 5), "hunter2", [1, 2, 3])
""",
    )
    (event,) = job.first.of("exception")
    assert event["type"] == "RuntimeError"
    assert "2x5" in str(event["message"])
    assert (event["step"], event["phase"], event["thread"]) == (1, "train", "MainThread")
    names = next(frame["names"] for frame in event["locals"] if frame["frame"].endswith(" work"))
    assert names == {"images": "Tensor[2, 5] float32 cpu", "password": "str of 7", "numbers": "list of 3"}
    assert "hunter2" not in str(job.first.events)
    assert job.err.count("Traceback") == 1
    assert job.code == 1


def test_exceptions_of_loaders_checkpoints_threads_and_children_are_told_with_their_phase(tmp_path: Path) -> None:
    broken = """
class Broken(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): raise KeyError("sample 7")
"""
    job = run(tmp_path, SET_UP + broken + "next(iter(DataLoader(Broken())))")
    assert [(e["type"], e["phase"]) for e in job.first.of("exception")] == [("KeyError", "data")]
    other = tmp_path / "other"
    other.mkdir()
    job = run(
        other,
        SET_UP
        + """
import threading
import torch.multiprocessing as mp

def fail(*_):
    raise ValueError("in a child")

if __name__ == "__main__":
    thread = threading.Thread(target=fail, name="logger")
    thread.start()
    thread.join()
    try:
        mp.spawn(fail, nprocs=1)
    except mp.ProcessRaisedException:
        pass
    process = mp.get_context("fork").Process(target=fail)
    process.start()
    process.join()
    torch.save(model, "/does/not/exist/model.pt")
""",
    )
    told = [(e["thread"], e["phase"], e["message"]) for e in job.first.of("exception")]
    assert told[0] == ("logger", "start-up", "in a child")
    assert told[1][:2] == ("MainThread", "checkpoint")
    children = [e["message"] for process in job.processes[1:] for e in process.of("exception")]
    assert children == ["in a child"] * 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_loader_workers_have_pages_of_their_own(tmp_path: Path, method: str) -> None:
    job = run(
        tmp_path,
        SET_UP
        + f"""
if __name__ == "__main__":
    for inputs, targets in DataLoader(data, batch_size=6, num_workers=2, multiprocessing_context={method!r}):
        step(inputs, targets)
""",
    )
    workers = [process for process in job.processes[1:] if not math.isnan(process.page["worker"])]
    assert sorted(process.page["worker"] for process in workers) == [0, 1]
    assert [process.page["beats"] for process in workers] == [3, 3]
    assert all(process.page["steps"] == 0 and process.page["signal"] == SIGNAL for process in workers)
    assert (job.first.page["steps"], job.first.page["train_batches"]) == (6, 6)
    assert math.isnan(job.first.page["worker"])


def test_stacks_come_by_signal_from_a_blocked_c_call_and_from_a_worker(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        SET_UP
        + """
import ctypes

class Stuck(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info():
            stuck_in_worker()
        return data[index]

def stuck_in_worker():
    open("here", "w").close()
    time.sleep(300)

def stuck_in_c():
    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)  # with the interpreter's lock held

loader = iter(DataLoader(Stuck(), num_workers=1))
while not os.path.exists("here"):
    time.sleep(0.01)
print("ready", flush=True)
stuck_in_c()
""",
    )
    live = tmp_path / "live"
    job = subprocess.Popen(
        [sys.executable, str(path)], env=environment(live), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not _all_answered(live):
            time.sleep(0.5)
        first, worker = processes(live)[:2]
        assert "stuck_in_c" in first.stacks
        assert "stuck_in_worker" in worker.stacks
        assert job.poll() is None
    finally:
        for process in processes(live):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        job.wait()


def _all_answered(live: Path) -> bool:
    found = processes(live)
    for process in found:
        os.kill(process.pid, SIGNAL)
    time.sleep(0.2)
    return len(found) == 2 and all("stuck_in" in process.stacks for process in processes(live))


def test_other_ways_to_save_and_sampling_are_seen(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        SET_UP
        + """
import safetensors.torch
import torch.distributed.checkpoint as dcp
from transformers import GPT2Config, GPT2LMHeadModel

safetensors.torch.save_file(model.state_dict(), "model.safetensors")
dcp.save(model.state_dict(), checkpoint_id="folder")
sizes = GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=20, bos_token_id=1, eos_token_id=2)
GPT2LMHeadModel(sizes).generate(torch.ones(1, 2, dtype=torch.long), max_new_tokens=3, do_sample=False)
""",
    )
    assert job.code == 0, job.err
    saved = [(e["how"], e["path"]) for e in job.first.of("checkpoint")]
    assert saved == [("safetensors", str(tmp_path / "model.safetensors")), ("dcp", str(tmp_path / "folder"))]
    assert all(e["bytes"] for e in job.first.of("checkpoint"))
    assert [e["edge"] for e in job.first.of("phase", phase="sample")] == ["begin", "end"]


def test_torchrun_gives_two_ranks_and_a_launcher(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        SET_UP
        + """
import torch.distributed as dist
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(model)
for inputs, targets in DataLoader(data, batch_size=8):
    step(inputs, targets)
evaluate(DataLoader(data, batch_size=8))
dist.barrier()
dist.all_gather_object([None, None], dist.get_rank())
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
time.sleep(1)  # a thread of gloo that has not let go of the last work aborts a process that ends (pytorch#179291)
""",
    )
    live = tmp_path / "live"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(path)]
    done = subprocess.run(
        command, env=environment(live), cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {process.page["rank"]: process for process in processes(live) if not math.isnan(process.page["rank"])}
    assert sorted(found) == [0, 1]
    for process in found.values():
        page = process.page
        assert (page["world_size"], page["steps"], page["eval_batches"], page["restart"]) == (2, 5, 5, 0)
    assert (found[0].page["checkpoints"], found[1].page["checkpoints"]) == (1, 0)
    (launcher,) = [process for process in processes(live) if math.isnan(process.page["rank"])]
    assert launcher.page["steps"] == 0
