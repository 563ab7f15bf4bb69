import argparse
import os

import torch
import yaml
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tasks.feed import TaskFeed
from tasks.model import MultiTask


def is_main():
    return dist.get_rank() == 0


def build(cfg):
    torch.manual_seed(cfg["train"]["seed"])
    net = MultiTask(cfg["trunk"], cfg["heads"])
    ddp = DistributedDataParallel(net, broadcast_buffers=False, gradient_as_bucket_view=True, find_unused_parameters=True)
    return net, ddp, torch.optim.Adam(ddp.parameters(), lr=cfg["train"]["lr"])


def loop(cfg):
    net, ddp, opt = build(cfg)
    feed = TaskFeed(cfg["train"]["per_task"], cfg["train"]["seed"], dist.get_rank())
    for it in range(cfg["train"]["iters"]):
        losses = ddp(feed.next())
        total = sum(losses.values())
        opt.zero_grad(set_to_none=False)
        total.backward()
        opt.step()
        if is_main() and it % 4 == 0:
            print("it %03d  " % it + "  ".join(f"{k} {v.item():.3f}" for k, v in losses.items()), flush=True)
    if is_main():
        torch.save(net.state_dict(), "trunk.pth")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cfg", required=True)
    with open(parser.parse_args().cfg) as f:
        config = yaml.safe_load(f)
    dist.init_process_group("gloo")
    if is_main():
        print("world", dist.get_world_size(), "host", os.uname().nodename, flush=True)
    loop(config)
    dist.destroy_process_group()
