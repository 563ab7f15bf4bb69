"""DistributedDataParallel, started by torchrun; NCCL where there is a GPU, gloo elsewhere."""
import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def setup():
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    return device


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    data = TensorDataset(torch.randn(64, 12), torch.randint(0, 3, (64,)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2, pin_memory=device.type == "cuda")
    model = DDP(torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.ReLU(), torch.nn.Linear(24, 3)).to(device),
                device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            if i % 2 == 0:
                with model.no_sync():
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                continue
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        objects = [None] * world
        dist.all_gather_object(objects, {"rank": rank, "loss": loss.item().hex()})
        model.eval()
        with torch.no_grad():
            hits = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in DataLoader(data, batch_size=32, num_workers=1))
        if rank == 0:
            print(epoch, total.item().hex(), hits, objects, flush=True)
            torch.save(model.module.state_dict(), f"epoch{epoch}.pt")
        dist.barrier()
    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()
    if rank == 0:
        print(digest)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
