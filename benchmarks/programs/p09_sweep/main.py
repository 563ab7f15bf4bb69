import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from vae.nets import VAE


def get_args_parser():
    parser = argparse.ArgumentParser("vae", add_help=False)
    parser.add_argument("--lr", default=5e-3, type=float)
    parser.add_argument("--epochs", default=12, type=int)
    parser.add_argument("--batch_size", default=32, type=int)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--out", default="runs/debug")
    return parser


def main(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed + rank)
    g = torch.Generator().manual_seed(0)
    x = torch.randn(640, 4, generator=g) @ torch.randn(4, 32, generator=g)
    sampler = DistributedSampler(TensorDataset(x), seed=args.seed)
    loader = DataLoader(TensorDataset(x), args.batch_size, sampler=sampler)
    model = DistributedDataParallel(VAE())
    opt = torch.optim.Adam(model.parameters(), args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for i, (b,) in enumerate(loader):
            loss, rec, kl = model(b)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.08)  # the simulator answers in this time
            if rank == 0 and i % 5 == 0:
                print(f"Epoch: [{epoch}]  [{i:2d}/{len(loader)}]  loss: {loss.item():.3f}  rec: {rec.item():.3f}  kl: {kl.item():.3f}")
    if rank == 0:
        os.makedirs(args.out, exist_ok=True)
        with open(os.path.join(args.out, "result.json"), "w") as f:
            json.dump({"elbo": loss.item()}, f)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(argparse.ArgumentParser(parents=[get_args_parser()]).parse_args())
