"""What the callbacks add to a trainer's step: the look before it and the read of its answer, against the bare cycle.

    python benchmarks/callbacks.py [--rounds 100] [--steps 3]

Both callbacks call the same two functions; frameworks themselves vary more than these cost, so they are called in the cycle
of `step_guard.py`, whose model, clocks and bounds are used. The host has to know before the optimizer steps: on a GPU a look
costs one wait for the device in each step, which the bare cycle has only with a scaler.
"""

from __future__ import annotations

import argparse
import sys

import step_guard
import torch
from torch import nn

from crashcart.train.step.watch import StepWatch


class Watched(step_guard.Job):
    """Guarded as by a callback."""

    def __init__(self, *, accumulate: int, scaled: bool) -> None:
        super().__init__(accumulate=accumulate, scaled=scaled)
        self.watch = StepWatch()
        self.watch.begin(self.model, [self.optimizer], self.device, 0)

    def guarded(self, steps: int) -> None:
        """The bare cycle with the two calls."""
        scaler = self.scaler if self.scaler.is_enabled() else None
        for number in range(steps * self.accumulate):
            loss = self.loss(self.batch)
            self.watch.saw(self.batch, loss)
            self.scaler.scale(loss / self.accumulate).backward()  # type: ignore[no-untyped-call]
            if (number + 1) % self.accumulate == 0:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.watch.before_step(number, self.optimizer, scaler)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.watch.after_step()
                self.optimizer.zero_grad(set_to_none=True)


def main() -> int:
    """The same three as of the guard."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    for title, accumulate, scaled in (("plain", 1, False), ("accumulate 4", 4, False), ("scaler", 1, True)):
        job = Watched(accumulate=accumulate, scaled=scaled)
        step_guard.measure(title, options.rounds, options.steps, job=job, promised="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
