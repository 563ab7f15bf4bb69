import argparse
import logging

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from orbit.keep import newest
from orbit.net import KindHead, Tracker, batch, share

log = logging.getLogger("finetune")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tracks")
    parser.add_argument("--store")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(name)s: %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    tracker = Tracker()
    path = newest(options.store)
    log.info("starting from %s", path)
    tracker.load_state_dict(torch.load(path, map_location="cpu", weights_only=False)["model"])
    model = DistributedDataParallel(KindHead(tracker), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), options.lr)
    kept = torch.load(options.tracks)
    mine = share([kept["track"], kept["kind"]], rank, ranks)
    g = torch.Generator().manual_seed(10 + rank)
    for step in range(1, options.steps + 1):
        track, kind = batch(mine, 48, g)
        scores = model(track[:, :8])
        loss = cross_entropy(scores, kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            right = (scores.argmax(-1) == kind).float().mean()
            dist.all_reduce(right)
            log.info("step %d loss %.4f right %.3f", step, loss.item(), right / ranks)
    if rank == 0:
        torch.save(model.module.state_dict(), "kinds.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
