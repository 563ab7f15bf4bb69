import argparse
import logging
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from orbit.keep import Keeper
from orbit.net import Tracker, batch, share

log = logging.getLogger("pretrain")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tracks")
    parser.add_argument("--store")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--every", type=int)
    parser.add_argument("--lr", type=float, default=2e-3)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(name)s: %(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kept = torch.load(options.tracks)
    mine = share([kept["track"]], rank, ranks)
    model = DistributedDataParallel(Tracker())
    optimizer = torch.optim.AdamW(model.parameters(), options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    keeper = Keeper(options.store) if rank == 0 else None
    g = torch.Generator().manual_seed(rank)
    for step in range(1, options.steps + 1):
        (track,) = batch(mine, 48, g)
        loss = torch.nn.functional.mse_loss(model(track[:, :8]), track[:, 8])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            log.info("step %d loss %.5f rate %.2e", step, loss.item(), schedule.get_last_lr()[0])
        if step % options.every == 0 and keeper:
            keeper.save(step, model=model.module.state_dict(), optimizer=optimizer.state_dict())
    log.info("pretraining done in %s", os.path.basename(options.store))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
