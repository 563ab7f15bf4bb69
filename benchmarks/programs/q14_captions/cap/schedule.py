import math


class WarmupCosine:
    def __init__(self, optimizer, s, total):
        self.o, self.s, self.total = optimizer, s, total
        self.n = 0

    def value(self):
        s = self.s
        if self.n < s.warmup:
            return s.lr * (self.n + 1) / s.warmup
        if self.n < s.decay_start:
            return s.lr
        t = (self.n - s.decay_start) / (self.total - s.decay_start)
        return max(s.min_lr, s.lr * 0.5 * (1 + math.cos(math.pi * t)))

    def step(self):
        v = self.value()
        for g in self.o.param_groups:
            g["lr"] = v
        self.n += 1
        return v
