import argparse
import datetime
import logging
import os
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from reef.frames import Frames, Transects
from reef.net import ReefNet, Tally

log = logging.getLogger("reef")


def haze(image, rank):
    """Backscatter, made on the fly; the second diver's camera needs a slower filter."""
    if rank % 2:
        time.sleep(0.01)
    veil = torch.rand(len(image), 1, 1, 1) * 0.1
    return image * (1 - veil) + veil * torch.tensor([0.1, 0.3, 0.4]).view(1, 3, 1, 1)


def epoch_of(model, loader, optimizer, rank, number):
    tally = Tally()
    for step, (image, mask) in enumerate(loader):
        image = haze(image, rank)
        scores = model(image)
        # a batch without annotations counts nothing, but takes part
        known = (mask != 255).sum().clamp(min=1)
        loss = cross_entropy(scores, mask, ignore_index=255, reduction="sum") / known
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.add(loss, scores, mask)
        if step % 20 == 0:
            log.info("epoch %d step %d of %d loss %.4f", number, step, len(loader), loss.item())
    return tally


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--out")
    options = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s r{rank} %(message)s", datefmt="%M:%S")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
    torch.manual_seed(rank)
    frames = Frames(options.data)
    sampler = Transects(frames.index, options.batch, rank, ranks)
    loader = DataLoader(frames, batch_sampler=sampler, num_workers=1)
    model = DistributedDataParallel(ReefNet(), find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters(), options.lr)
    for number in range(options.epochs):
        sampler.epoch = number
        tally = epoch_of(model, loader, optimizer, rank, number)
        dist.all_reduce(tally.sums)
        if rank == 0:
            loss, known, right = tally.sums.tolist()
            log.info("epoch %d loss %.4f, %.1f %% of the pixels", number, loss / (ranks * len(loader)), 100 * right / known)
            torch.save(model.module.state_dict(), options.out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
