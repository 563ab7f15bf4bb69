"""Small training programs for a GPU, each run as `python programs.py NAME`: what they print is compared with and without us."""

# ruff: noqa: T201 - they print what is compared
from __future__ import annotations

import sys

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()


def batches(count: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(count, 64, 256, device="cuda")


def plain() -> None:
    """Eager training with a gradient scaler."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for batch in batches(40):
        with torch.autocast("cuda", torch.float16):
            loss = (net(batch) - batch).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(loss.item().hex())


def compiled() -> None:
    """torch.compile of the model and of the optimizer's step."""
    net = torch.compile(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)  # type: ignore[attr-defined]
    step = torch.compile(optimizer.step)
    for batch in batches(30):
        loss = (net(batch) - batch).pow(2).mean()
        loss.backward()
        step()
        optimizer.zero_grad()
        print(loss.item().hex())


def graphed() -> None:
    """A whole step captured in a CUDA graph, and replayed."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)
    static = batches(1)[0].clone()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            (net(static) - static).pow(2).mean().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = (net(static) - static).pow(2).mean()
        loss.backward()
        optimizer.step()
    for batch in batches(30):
        static.copy_(batch)
        graph.replay()
        print(loss.item().hex())


def synchronisations() -> None:
    """How often the program waits for the device in 50 steps that never ask for a value."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    data = batches(60)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    ) as seen:
        for batch in data[:50]:
            (net(batch) - batch).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    waits = [event for event in seen.events() if "Synchronize" in event.name]
    print(len(waits))


def sampling() -> None:
    """Trains well, then asks for far more while it samples."""
    torch.cuda.set_per_process_memory_fraction(0.02)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step, batch in enumerate(batches(30), 1):
        net.train()
        loss = (net(batch) - batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 10 == 0:
            net.eval()
            with torch.no_grad():
                net(torch.randn(64 if step < 30 else 1_000_000, 256, device="cuda"))


def crowded() -> None:
    """Asks for less than the card has, and more than somebody else left."""
    print("step 1 loss 1.0", flush=True)
    free, _ = torch.cuda.mem_get_info()
    held = [torch.empty(free // 3, dtype=torch.uint8, device="cuda") for _ in range(4)]
    print(len(held))


def holder() -> None:
    """Somebody else: takes most of the card and stays."""
    free, _ = torch.cuda.mem_get_info()
    held = torch.zeros(int(free * 0.8), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print("held", held.numel(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    {name: one for name, one in globals().items() if callable(one)}[sys.argv[1]]()
