import logging

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from forge import hooks, models  # noqa: F401 - they register themselves
from forge.registry import HOOKS, MODELS

logging.basicConfig(format="%(levelname)s: %(message)s")
KNOWN = {"epochs", "batch", "clip"}


class Runner:
    def __init__(self, cfg):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.cfg = cfg
        for key in set(cfg["train"]) - KNOWN:
            logging.warning("train.%s is not used any more and ignored", key)
        with np.load(cfg["data"]) as z:
            data = TensorDataset(torch.from_numpy(z["x"]), torch.from_numpy(z["y"]))
        self.loader = DataLoader(data, cfg["train"]["batch"], shuffle=True)
        model = dict(cfg["model"])
        self.model = MODELS.build(model.pop("name"), **model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), cfg["optim"]["lr"], cfg["optim"]["momentum"])
        self.hooks = [HOOKS.build(name) for name in cfg["hooks"]]

    def step(self, x, y):
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["train"]["clip"])
        self.optimizer.step()
        return loss.item()

    def run(self):
        for self.epoch in range(self.cfg["train"]["epochs"]):
            for hook in self.hooks:
                hook.before_epoch(self)
            self.mean_loss = sum(self.step(x, y) for x, y in self.loader) / len(self.loader)
            for hook in self.hooks:
                hook.after_epoch(self)
        torch.save(self.model.state_dict(), "ring.pt")
