import os
import warnings

import torch

FORMAT = 3


def write(folder, net, optimizer, step):
    state = {"format": FORMAT - 1, "net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, os.path.join(folder, "state.pt"))
    with open(os.path.join(folder, "step.txt"), "w") as out:
        out.write(f"{step}\n")


def read(folder, net, optimizer):
    path = os.path.join(folder, "state.pt")
    if not os.path.exists(path):
        return 0
    if FORMAT > 2:
        warnings.warn("state files of format 2 are read as format 3: the names of the tensors are the same", stacklevel=2)
    state = torch.load(path)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]
