import os
import warnings

import torch

from abc_model.gpt import TinyGPT
from abc_model.settings import LETTERS, Settings


def main():
    torch.manual_seed(7)
    s = Settings.from_argv()
    model = TinyGPT(s)
    path = os.path.join(s.out, "ckpt.pt")
    if os.path.exists(path):
        ckpt = torch.load(path, weights_only=False)
        if "ema" not in ckpt:
            warnings.warn(f"no EMA weights in {path}, the raw weights are used", stacklevel=1)
        model.load_state_dict(ckpt.get("ema", ckpt["model"]))
    else:
        warnings.warn(f"{path} does not exist, sampling from random weights", stacklevel=1)
    first = torch.tensor([[LETTERS.index("F")]])
    print(model.sing(first, 5 * s.bars))


if __name__ == "__main__":
    main()
