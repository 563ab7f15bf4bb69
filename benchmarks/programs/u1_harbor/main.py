import argparse
import datetime
import json
import logging
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from berths.mining import hard_pairs
from berths.net import Embedder

log = logging.getLogger("harbor")


class Triplets(Dataset):
    """A view, another view of the same hull, and one of another hull (a hard one where it is known)."""

    def __init__(self, path):
        kept = torch.load(path)
        self.views, self.hull = kept["views"], kept["hull"]
        self.hulls = int(self.hull.max()) + 1
        self.hard = {}

    def __len__(self):
        return len(self.views)

    def __getitem__(self, n):
        same = (n + self.hulls * (1 + n % 5)) % len(self.views)
        other = self.hard.get(n, (n * 7 + 13) % len(self.views))
        return self.views[n], self.views[same], self.views[other]


def refresh(model, data, settings):
    """Rank 0 mines; the pairs are small, so everybody gets all of them."""
    box = [None]
    if dist.get_rank() == 0:
        log.info("mining hard pairs")
        box[0] = hard_pairs(model.module, data.views, data.hull, settings["mine_share"])
        log.info("%d hard pairs", len(box[0]))
    dist.broadcast_object_list(box, src=0)
    data.hard.update(box[0])


def train(settings):
    rank = dist.get_rank()
    torch.manual_seed(21)
    data = Triplets(settings["ships"])
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, settings["batch"], sampler=sampler, drop_last=True)
    model = DistributedDataParallel(Embedder(settings["width"]), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), settings["lr"])
    criterion = torch.nn.TripletMarginLoss(settings["margin"])
    for epoch in range(settings["epochs"]):
        sampler.set_epoch(epoch)
        if epoch >= settings["mine_from"] and epoch % settings["mine_every"] == 0:
            refresh(model, data, settings)
        total = torch.zeros(2)
        for anchor, same, other in loader:
            a, s, o = model(torch.cat([anchor, same, other])).chunk(3)
            loss = criterion(a, s, o)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        if rank == 0:
            log.info("epoch %d loss %.4f", epoch, total[0] / total[1])
    if rank == 0:
        torch.save({"width": settings["width"], "model": model.module.state_dict()}, settings["keep"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings")
    with open(parser.parse_args().settings) as f:
        settings = json.load(f)
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.INFO, format=f"[rank {os.environ['RANK']}] %(message)s")
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=settings["collective_timeout"]))
    try:
        train(settings)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
