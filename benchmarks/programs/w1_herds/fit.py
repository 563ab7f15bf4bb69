import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from collar.model import Behaviour
from collar.tracks import KINDS, ByHerd, Tracks


def options():
    parser = argparse.ArgumentParser(description="What is the animal doing?")
    parser.add_argument("--herds", type=int, default=128)
    parser.add_argument("--animals", type=int, default=24)
    parser.add_argument("--length", type=int, default=96)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--least", type=float, default=0.1, help="share of fixes below which a batch says nothing")
    parser.add_argument("--patience", type=int, default=20, help="seconds a rank waits for the others")
    parser.add_argument("--out", default="behaviour.pt")
    return parser.parse_args()


def report(epoch, counts, path, model):
    """Rank 0 writes the confusion matrix and keeps the model."""
    share = counts / counts.sum(1, keepdim=True).clamp(min=1)
    for name, row in zip(KINDS, share.tolist()):
        print(f"epoch {epoch} {name:8s}" + " ".join(f"{v:.2f}" for v in row), flush=True)
    torch.save({"epoch": epoch, "model": model.module.state_dict()}, path)


def main():
    o = options()
    dist.init_process_group("gloo", timeout=timedelta(seconds=o.patience))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    torch.set_num_threads(1)
    tracks = Tracks(o.herds, o.animals, o.length, 17)
    batches = ByHerd(tracks, o.animals, rank, ranks, 3)
    loader = DataLoader(tracks, batch_sampler=batches)
    model = DistributedDataParallel(Behaviour(o.width), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), o.lr)
    scarce = 0
    for epoch in range(o.epochs):
        batches.set_epoch(epoch)
        counts = torch.zeros(len(KINDS), len(KINDS))
        for step, (move, seen, kind, herd) in enumerate(loader):
            if seen.float().mean() < o.least:
                scarce += 1
                continue
            guess = model(move, seen)
            loss = cross_entropy(guess[seen], kind[seen])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            pairs = kind[seen] * len(KINDS) + guess[seen].argmax(-1)
            counts += pairs.bincount(minlength=len(KINDS) ** 2).view_as(counts)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
        dist.reduce(counts, 0)
        if rank == 0:
            report(epoch, counts, o.out, model)
        dist.barrier()
    print(f"rank {rank}: {scarce} batches with few fixes", flush=True)


if __name__ == "__main__":
    main()
