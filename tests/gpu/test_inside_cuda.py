"""On a GPU: numbers come late and without a wait, graphs are captured as before, and running out of memory is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
from inside_job import run

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")]

SET_UP = """
import os, sys
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
data = TensorDataset(torch.randn(512, 64), torch.randn(512, 1))
"""


def test_losses_and_scales_come_without_a_wait(tmp_path: Path) -> None:
    code = (
        SET_UP
        + """
import warnings
scaler = torch.amp.GradScaler("cuda", growth_interval=20)
losses = []

def epoch():
    for number, (inputs, targets) in enumerate(DataLoader(data, batch_size=8)):
        inputs, targets = inputs.cuda(), targets.cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = (model(inputs).float() - targets).square().mean()
        if number == 30:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())

epoch()
torch.cuda.set_sync_debug_mode("warn")
with warnings.catch_warnings(record=True) as waits:
    warnings.simplefilter("always")
    epoch()
torch.cuda.set_sync_debug_mode("default")
print(len(waits))
print([loss.item().hex() for loss in losses], scaler.get_scale(), torch.cuda.max_memory_allocated())
"""
    )
    with_us, bare = run(tmp_path, code), run(tmp_path, code, inside=False)
    assert bare.code == 0, bare.err
    assert (with_us.code, with_us.out) == (0, bare.out), with_us.err
    page = with_us.first.page
    assert page["skipped"] >= 2
    assert page["steps"] + page["skipped"] == 128
    assert (
        page["loss"]
        in [float.fromhex(text.strip(" '")) for text in bare.out.partition("[")[2].partition("]")[0].split(",")][-8:]
    )
    assert page["allocated"] > 0
    assert page["peak"] >= page["allocated"]
    assert [e["what"] for e in with_us.first.of("nonfinite")] == ["loss", "loss"]


def test_a_whole_step_in_a_graph_is_captured_and_replayed_as_before(tmp_path: Path) -> None:
    code = (
        SET_UP
        + """
inputs, targets = torch.randn(8, 64, device="cuda"), torch.randn(8, 1, device="cuda")

def step():
    optimizer.zero_grad(set_to_none=True)
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    optimizer.step()
    return loss

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(20):
    graph.replay()
print(loss.item().hex(), torch.cuda.max_memory_allocated())

@torch.compile(mode="reduce-overhead")
def forward(inputs):
    return model(inputs)

for _ in range(6):
    (forward(inputs) - targets).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print([p.double().sum().item().hex() for p in model.parameters()])
"""
    )
    with_us, bare = run(tmp_path, code), run(tmp_path, code, inside=False)
    assert bare.code == 0, bare.err
    assert (with_us.code, with_us.out) == (0, bare.out), with_us.err


def test_running_out_of_memory_is_told_with_the_allocator_s_numbers(tmp_path: Path) -> None:
    job = run(
        tmp_path,
        SET_UP
        + """
for inputs, targets in DataLoader(data, batch_size=8):
    loss = (model(inputs.cuda()) - targets.cuda()).square().mean()
    loss.backward()
    optimizer.step()
torch.empty(1 << 42, device="cuda")
""",
    )
    (event,) = job.first.of("oom")
    assert event["tried"] == 4 << 42
    assert event["total"] > 1 << 30
    assert event["allocated"] > 0
    assert (event["phase"], event["batch_size"], event["largest_batch"]) == ("train", 8, 8)
    assert job.first.of("exception")[0]["type"] == "torch.OutOfMemoryError"
