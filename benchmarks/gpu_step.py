"""What the hooks cost on a GPU: the time of a bf16 step under `crashcart run` against the bare command, taking turns.

    python benchmarks/gpu_step.py [--rounds 6] [--steps 300]

Prints the ratio of median step times with the upper 95 % bound of a bootstrap over rounds (promised: at most 1.005).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile

JOB = """
import json, sys, time, torch
width, depth, steps = 4096, 8, int(sys.argv[1])
net = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(depth)]).cuda().bfloat16()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
batch = torch.randn(int(sys.argv[2]), width, device="cuda", dtype=torch.bfloat16)
times = []
for step in range(steps + 30):
    start = time.perf_counter()
    loss = net(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    if step >= 30:
        times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def main() -> int:
    """Alternate, then compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=12288)
    options = parser.parse_args()
    bare: list[float] = []
    ours: list[float] = []
    job = [sys.executable, "-c", JOB, str(options.steps), str(options.batch)]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            pair = [(bare, job), (ours, [sys.executable, "-m", "crashcart", "run", "--quiet", "--", *job])]
            for into, command in pair if turn % 2 else pair[::-1]:
                done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
                into.append(statistics.median(json.loads(done.stdout)))
    chance = random.Random(1)
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    resampled = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(4000))
    print(f"bare step {1000 * statistics.median(bare):.2f} ms, ours {1000 * statistics.median(ours):.2f} ms")
    print(f"ratio {statistics.median(ratios):.4f}, upper 95 % bound {resampled[int(0.95 * len(resampled))]:.4f} (1.005)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
