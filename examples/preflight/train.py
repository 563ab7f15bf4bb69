"""Fits a line on two ranks; written as such programs are."""

import argparse
import os

import torch
import torch.distributed as dist
import yaml
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--output", default="runs/default")
    options = parser.parse_args()
    with open(options.config) as file:
        config = yaml.safe_load(file)

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    inputs = torch.randn(256, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=config["batch_size"], sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"], weight_decay=config["weight_decay"])
    for epoch in range(config["epochs"]):
        sampler.set_epoch(epoch)
        for batch, targets in loader:
            loss = (model(batch) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
    if dist.get_rank() == 0:
        os.makedirs(options.output, exist_ok=True)
        torch.save(model.module.state_dict(), os.path.join(options.output, "model.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
