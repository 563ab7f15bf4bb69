"""The learning rate: a straight line up, then half a cosine down to a tenth."""
import math


class Rate:
    def __init__(self, optimizer, peak, warm, total, accumulate):
        self.optimizer, self.peak = optimizer, peak
        self.warm, self.total, self.accumulate = warm, total, accumulate
        self.calls = 0
        self.step()

    def at(self, n):
        if n < self.warm:
            return self.peak * (n + 1) / (self.warm // self.accumulate)
        done = (n - self.warm) / max(1, self.total - self.warm)
        return self.peak * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.at(self.calls)
        self.calls += 1
