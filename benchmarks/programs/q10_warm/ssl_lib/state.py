import logging
import os
import torch
from torch import distributed as dist

log = logging.getLogger(__name__)


class State:
    """All that has to survive a restart."""

    def __init__(self, **parts):
        self.parts = parts
        self.step = 0

    def save(self, path):
        if dist.get_rank() == 0:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            torch.save({k: v.state_dict() for k, v in self.parts.items()} | {"step": self.step}, path)
        dist.barrier()

    def load(self, path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
        self.step = saved.pop("step")
        for k, v in saved.items():
            self.parts[k].load_state_dict(v)
        log.info("continued from %s at step %d", path, self.step)
