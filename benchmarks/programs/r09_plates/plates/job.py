"""Training runs in a worker thread so that the instrument's console stays responsive."""
import logging
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from plates.table import wells

log = logging.getLogger(__name__)


class Job:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, cfg["phenotypes"]))
        self.optimizer = torch.optim.SGD(self.net.parameters(), cfg["lr"], momentum=0.9)

    def fit_site(self, site):
        x, y = wells(self.cfg["table"], site)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(self.cfg["epochs"]):
            for part in torch.randperm(len(x)).split(self.cfg["batch"]):
                loss = criterion(self.net(x[part]), y[part])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            log.info("site %s epoch %d loss %.4f", site, epoch, loss.item())

    def work(self):
        try:
            for site in self.cfg["sites"]:
                self.fit_site(site)
            torch.save(self.net.state_dict(), f"{self.cfg['out']}/{self.cfg['name']}.pt")
        except Exception:
            log.exception("job %s", self.cfg["name"])

    def submit(self):
        return ThreadPoolExecutor(1, "plates").submit(self.work)
