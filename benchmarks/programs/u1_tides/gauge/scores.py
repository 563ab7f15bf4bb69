"""What is printed while it trains."""
import math


class Smoothed:
    """Exponential mean, corrected for its start."""

    def __init__(self, keep=0.95):
        self.keep, self.value, self.count = keep, 0.0, 0

    def update(self, number):
        self.value = self.keep * self.value + (1 - self.keep) * number
        self.count += 1

    def read(self):
        return float(self.value) / (1 - self.keep**self.count) if self.count else math.nan


class Skill:
    """One minus the error over the error of 'the tide of a day ago'."""

    def __init__(self):
        self.error, self.reference = Smoothed(0.98), Smoothed(0.98)

    def update(self, guess, past, future):
        lag = past.shape[1] - 25
        naive = past[:, lag : lag + future.shape[1], 0]
        self.error.update((guess - future).square().mean())
        self.reference.update((naive - future).square().mean().item())

    def read(self):
        return 1 - self.error.read() / max(self.reference.read(), 1e-6)
