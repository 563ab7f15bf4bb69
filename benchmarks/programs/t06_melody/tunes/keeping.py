import logging
import os

import torch

log = logging.getLogger("tunes.keeping")


def keep(path, step, model, optimizer, scheduler):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    weights = {k: v for k, v in model.state_dict().items() if k != "octave"}
    state = {"step": step, "model": weights, "optim": optimizer.state_dict(), "sched": scheduler.state_dict()}
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def restore(path, model, optimizer, scheduler):
    state = torch.load(path)
    missing, extra = model.load_state_dict(state["model"], strict=False)
    if missing or extra:
        log.warning("weights: missing %s, unexpected %s", missing, extra)
    for name, thing in (("optimizer", optimizer), ("scheduler", scheduler)):
        if name in state:
            thing.load_state_dict(state[name])
    return state["step"]
