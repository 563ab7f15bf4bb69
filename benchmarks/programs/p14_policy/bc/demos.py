import torch


class Demos:
    def __init__(self, cfg):
        g = torch.Generator().manual_seed(2)
        n, w = cfg.demos, 200
        self.obs = torch.randn(n, w, 10, generator=g)
        self.act = torch.tanh(self.obs @ torch.randn(10, 3, generator=g))
        self.rew = torch.rand(n, w, generator=g)
        self.rew[24:32] *= 0.4
        self.cfg, self.n, self.w = cfg, n, w

    def batches(self, steps):
        for k in range(steps):
            first = (k // 20 * self.cfg.batch) % self.n
            rows = torch.arange(first, first + self.cfg.batch)
            o = (k * self.cfg.window) % (self.w - self.cfg.window)
            s = slice(o, o + self.cfg.window)
            yield {"obs": self.obs[rows, s], "act": self.act[rows, s], "good": self.rew[rows, s] > self.cfg.min_reward}
