import torch


class TaskFeed:
    """Mixed batches. A task whose pool is used up takes no further part until the pool is filled again."""

    def __init__(self, per_task, seed, rank):
        self.g = torch.Generator().manual_seed(seed * 100 + rank)
        self.per_task, self.rank = per_task, rank
        self.left = {"tag": 10 ** 6, "rank": 10 ** 6, "span": (560, 352)[rank % 2]}
        w = torch.Generator().manual_seed(0)
        self.w = {"tag": torch.randn(32, 12, generator=w), "rank": torch.randn(32, 1, generator=w), "span": torch.randn(32, 2, generator=w)}

    def next(self):
        out = {}
        for name in self.left:
            if self.left[name] < self.per_task:
                if self.left[name] != -1:
                    print(f"[feed {self.rank}] pool '{name}' is used up, 5 malformed rows were dropped", flush=True)
                    self.left[name] = -1
                continue
            self.left[name] -= self.per_task
            x = torch.randn(self.per_task, 32, generator=self.g)
            y = x @ self.w[name]
            out[name] = (x, y.argmax(-1) if name == "tag" else y)
        return out
