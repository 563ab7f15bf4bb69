import argparse
import datetime
import tomllib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rain.model import RainNet, objective
from rain.table import load


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records")
    parser.add_argument("--cfg")
    args = parser.parse_args()
    with open(args.cfg, "rb") as f:
        cfg = tomllib.load(f)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, rain, storm = load(args.records, rank, world)
    net = RainNet()
    model = DistributedDataParallel(net, find_unused_parameters=True, **cfg["ddp"])
    optimizer = torch.optim.AdamW(model.parameters(), cfg["train"]["lr"])
    draw = torch.Generator().manual_seed(100 + rank)
    for step in range(cfg["train"]["steps"]):
        part = torch.randint(len(x), (cfg["train"]["batch"],), generator=draw)
        weight = cfg["loss"]["auxiliary"] if step < cfg["loss"]["auxiliary_until"] else 0.0
        loss = objective(model, x[part], rain[part], storm[part], weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if rank == 0:
        torch.save(net.state_dict(), "rain.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
