import dataclasses
import sys

import torch


@dataclasses.dataclass
class Options:
    traces: str = "traces.npy"
    precision: str = "single"
    lr: float = 1e-3
    betas: tuple = (0.9, 0.98)
    eps: float = 1e-8
    decay: float = 0.01
    steps: int = 400
    batch: int = 32
    warmup: int = 20
    spread: float = 2.0
    seed: int = 10

    @property
    def dtype(self):
        return {"single": torch.float32, "half": torch.float16, "brain": torch.bfloat16}[self.precision]

    @classmethod
    def from_arguments(cls):
        words, types = sys.argv[1:], {f.name: f.type for f in dataclasses.fields(cls)}
        given = dict(pair.split("=", 1) for flag, pair in zip(words[::2], words[1::2]) if flag == "--set")
        casts = {"int": int, "float": float, "str": str, int: int, float: float, str: str}
        return cls(**{k: casts[types[k]](v) for k, v in given.items()})
