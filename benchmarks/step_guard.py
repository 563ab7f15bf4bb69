"""What StepGuard costs: a step with it against the bare cycle (backward, clip, step, zero_grad), taking turns in one process.

    python benchmarks/step_guard.py [--rounds 40] [--steps 20]

On a GPU where there is one (bf16, fused AdamW, about 20 ms a step), else on the CPU (about 20 ms as well; its processor time).
Prints the ratio of medians with the upper 95 % bound of a bootstrap over rounds (promised: at most 1.01), for a plain step, with
accumulation by 4, and with a scaler.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from crashcart.train import StepGuard

if TYPE_CHECKING:
    from collections.abc import Callable


class Job:
    """A model of linear layers with its own optimizer, and both ways to train it."""

    def __init__(self, *, accumulate: int, scaled: bool) -> None:
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if cuda else "cpu")
        width, depth, self.rows = (4096, 8, 12288 // accumulate) if cuda else (256, 16, 256 // accumulate)
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.LayerNorm(width))]
        self.model = nn.Sequential(*layers).to(self.device, torch.bfloat16 if cuda and not scaled else torch.float32)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=cuda)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)
        self.accumulate = accumulate
        self.batch = torch.randn(self.rows, width, device=self.device, dtype=next(self.model.parameters()).dtype)
        self.guard = StepGuard(self.model, self.optimizer, scaler=self.scaler, accumulate=accumulate, clip=1.0)

    def loss(self, batch: Tensor) -> Tensor:
        """Forward only: the same for both."""
        with torch.autocast(
            self.device.type, torch.float16, enabled=self.scaler.is_enabled() and self.device.type == "cuda"
        ):
            return self.model(batch).float().square().mean()  # type: ignore[no-any-return]

    def bare(self, steps: int) -> None:
        """The cycle as a careful user writes it, without any look at the loss."""
        for number in range(steps * self.accumulate):
            loss = self.loss(self.batch)
            self.scaler.scale(loss / self.accumulate).backward()  # type: ignore[no-untyped-call]
            if (number + 1) % self.accumulate == 0:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)

    def guarded(self, steps: int) -> None:
        """The same with the guard."""
        for batch in self.guard.batches([self.batch] * (steps * self.accumulate)):
            self.guard.backward(self.loss(batch))


def seconds(work: Callable[[int], None], steps: int) -> float:
    """Of one step: on a GPU by the clock, on the CPU the processor time, which neighbours disturb less."""
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = clock()
    work(steps)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (clock() - start) / steps


def measure(title: str, rounds: int, steps: int, *, job: Job, promised: str = " (1.01)") -> None:
    """Print one line."""
    job.bare(3)
    job.guarded(8)
    bare: list[float] = []
    ours: list[float] = []
    for turn in range(rounds):
        pair = [(bare, job.bare), (ours, job.guarded)]
        for into, work in pair if turn % 2 else pair[::-1]:
            into.append(seconds(work, steps))
    ratios = [b / a for a, b in zip(bare, ours, strict=True)]
    chance = random.Random(1)
    resampled = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(4000))
    print(
        f"{title:<16} bare {1000 * statistics.median(bare):6.2f} ms  ours {1000 * statistics.median(ours):6.2f} ms  "
        f"ratio {statistics.median(ratios):.4f}, upper 95 % bound {resampled[int(0.95 * len(resampled))]:.4f}{promised}"
    )


def main() -> int:
    """All three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    measure("plain", options.rounds, options.steps, job=Job(accumulate=1, scaled=False))
    measure("accumulate 4", options.rounds, options.steps, job=Job(accumulate=4, scaled=False))
    measure("scaler", options.rounds, options.steps, job=Job(accumulate=1, scaled=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
