import argparse
import datetime

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from mt.batches import ShardBatches
from mt.net import Tagger

torch.set_num_threads(1)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--shards")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--max-tokens", type=int, default=4000)
    return p.parse_args()


def one_epoch(model, optimizer, batches, max_tokens, epoch, rank):
    total = torch.zeros(2)
    for step, (src, tgt) in enumerate(batches):
        if src.numel() > max_tokens:
            keep = max_tokens // len(src)
            src, tgt = src[:, :keep], tgt[:, :keep]
        logits = model(src)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item(), 1.0])
        if rank == 0 and step % 10 == 0:
            print(f"epoch {epoch} step {step:3d} loss {loss.item():.3f}", flush=True)
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main():
    args = parse()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tagger(), find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    batches = ShardBatches(f"{args.shards}/rank{rank}.npz")
    for epoch in range(args.epochs):
        mean = one_epoch(model, optimizer, batches, args.max_tokens, epoch, rank)
        if rank == 0:
            print(f"== epoch {epoch} mean loss {mean:.4f}", flush=True)
    if rank == 0:
        torch.save(model.module.state_dict(), "mt.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
