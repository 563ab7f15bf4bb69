import datetime
import logging
import os
import sys
import time

import torch
import torch.distributed as dist
import yaml
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from basins.net import Runoff, nse
from basins.records import Blocks, Windows

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
logging.basicConfig(level=logging.INFO if RANK == 0 else logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
log = logging.getLogger("train")


def epoch(net, loader, optimizer, clip):
    total, count = torch.zeros(1), torch.zeros(1)
    for n, (x, y) in enumerate(loader):
        ok = torch.isfinite(y)
        error = torch.where(ok, net(x) - torch.nan_to_num(y), 0.0)
        loss = error.square().sum() / ok.sum().clamp_min(1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        total += loss.item()
        count += 1
        if n % 12 == 0:
            log.info("batch %d loss %.4f", n, loss.item())
    dist.all_reduce(total)
    dist.all_reduce(count)
    return (total / count).item()


def main(path):
    with open(path) as f:
        conf = yaml.safe_load(f)
    torch.set_num_threads(1)
    comm = conf["comm"]
    dist.init_process_group(comm["backend"], timeout=datetime.timedelta(minutes=comm["timeout_minutes"]))
    torch.manual_seed(5)
    windows = Windows(conf["data"], conf["window"], conf["stride"])
    blocks = Blocks(len(windows), RANK, WORLD, conf["batch"])
    loader = DataLoader(windows, batch_sampler=blocks)
    log.info("%d windows, %d batches on each rank", len(windows), len(blocks))
    net = DDP(Runoff(conf["hidden"]))
    optimizer = torch.optim.AdamW(net.parameters(), conf["lr"])
    for e in range(conf["epochs"]):
        mean = epoch(net, loader, optimizer, conf["clip"])
        log.info("epoch %d mean loss %.4f", e, mean)
    if RANK == 0:
        with torch.no_grad():
            x, y = zip(*(windows[k] for k in range(0, len(windows), 7)))
            log.info("NSE %.3f", nse(net.module(torch.stack(x)), torch.stack(y)))
        torch.save(net.module.state_dict(), "runoff.pt")
    dist.barrier()
    time.sleep(0.5)  # the last lines of all ranks
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
