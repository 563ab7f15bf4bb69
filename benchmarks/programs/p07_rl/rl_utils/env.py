import numpy as np


class VecCart:
    """CartPole without the pole falling any faster than it has to."""

    def __init__(self, n, seed, horizon=60):
        self.n, self.rng, self.horizon = n, np.random.default_rng(seed), horizon
        self.s = self.rng.uniform(-0.05, 0.05, (n, 4))
        self.t = np.zeros(n, int)

    def step(self, action):
        x, v, th, w = self.s.T
        f = np.where(action == 1, 10.0, -10.0)
        tmp = (f + 0.05 * w ** 2 * np.sin(th)) / 1.1
        wa = (9.8 * np.sin(th) - np.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * np.cos(th) ** 2 / 1.1))
        va = tmp - 0.05 * wa * np.cos(th) / 1.1
        self.s = np.stack([x + 0.02 * v, v + 0.02 * va, th + 0.02 * w, w + 0.02 * wa], 1)
        self.t += 1
        done = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 0.21) | (self.t >= self.horizon)
        lengths = self.t[done].copy()
        self.s[done] = self.rng.uniform(-0.05, 0.05, (done.sum(), 4))
        self.t[done] = 0
        return self.s.astype("float32"), np.ones(self.n, "float32"), done, lengths
