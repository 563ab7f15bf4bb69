"""First all crossings of the northern route, with the harbour master's warning as a second task; then the islands' few."""
import sys

import torch

from harbour.stage import Stage, run

STAGES = {
    "north": Stage("north", "north", 5000, 4, 1e-3, warn=True),
    "islands": Stage("islands", "islands", 1500, 4, 4e-4, frozen=1, resume="north.pt"),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or STAGES:
        run(STAGES[name])
