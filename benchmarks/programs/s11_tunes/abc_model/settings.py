"""All settings, with what the command line says on top."""
import sys
from dataclasses import dataclass, fields

LETTERS = "CDEFGABc|\n"


@dataclass
class Settings:
    out: str = "out"
    data: str = "tunes.abc"
    n_embd: int = 32
    n_layer: int = 2
    block: int = 20
    iters: int = 100
    lr: float = 4e-3
    bars: int = 4
    ema: float = 0.0

    @classmethod
    def from_argv(cls):
        words, known = sys.argv[1:], {f.name: f.type for f in fields(cls)}
        given = {}
        for flag, value in zip(words[::2], words[1::2], strict=True):
            name = flag.removeprefix("--")
            if name not in known:
                raise SystemExit(f"unknown flag {flag}")
            given[name] = known[name](value)
        return cls(**given)
