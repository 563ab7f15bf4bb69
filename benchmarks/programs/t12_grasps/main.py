import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import settings


def network(inputs, hidden, dropout):
    layers, width = [], inputs
    for h in hidden:
        layers += [nn.Linear(width, h), nn.LeakyReLU(), nn.Dropout(dropout)]
        width = h
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def build_optimizer(params, o):
    cls = getattr(torch.optim, o.cls)
    return cls(params, lr=float(o.lr), weight_decay=float(o.weight_decay), betas=tuple(o.betas))


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        right = ((net(x) > 0).float() == y).float().mean().item()
    net.train()
    return right


def main(paths):
    conf = settings.load(paths)
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(conf.seed)
    table = torch.from_numpy(np.load(conf.data.path))
    held = int(len(table) * conf.data.val_share)
    x, y = table[:, :-1], table[:, -1]
    train = TensorDataset(x[held:], y[held:])
    sampler = DistributedSampler(train, seed=conf.seed)
    loader = DataLoader(train, conf.data.batch, sampler=sampler)
    net = DDP(network(x.shape[1], conf.model.hidden, conf.model.dropout))
    optimizer = build_optimizer(net.parameters(), conf.optim)
    for epoch in range(conf.train.epochs):
        sampler.set_epoch(epoch)
        for a, b in loader:
            with torch.autocast("cpu", enabled=bool(conf.train.amp)):
                loss = nn.functional.binary_cross_entropy_with_logits(net(a), b)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), float(conf.train.grad_clip))
            optimizer.step()
        if rank == 0:
            print(f"{conf.name}: epoch {epoch} loss {loss.item():.4f} accuracy {evaluate(net.module, x[:held], y[:held]):.3f}", flush=True)
    if rank == 0:
        torch.save(net.module.state_dict(), f"{conf.name}.pt")
    dist.barrier()
    time.sleep(0.5)  # the last lines of all ranks
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
