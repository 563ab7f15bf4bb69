import json
import sys

import torch

from kit import tasks  # noqa: F401
from kit.registry import TASKS

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with open(sys.argv[1]) as f:
        cfg = json.load(f)
    print("==", sys.argv[1], cfg["task"])
    TASKS[cfg["task"]](cfg)
