import argparse

import torch
from torch.utils.data import DataLoader

from flow.field import Field
from flow.moons import Moons
from lab.tracker import LabTracker


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--artifact-every", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tracker = LabTracker("moons")
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), 3e-3)
    stream = iter(DataLoader(Moons(), 64, num_workers=args.workers, timeout=0, prefetch_factor=2))
    for step in range(1, args.steps + 1):
        loss = field.loss(next(stream))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
            tracker.log(step, loss=loss.item())
        if step % args.artifact_every == 0:
            torch.save(field.state_dict(), "field.pt")
            tracker.artifact("field.pt")
    print("done")


if __name__ == "__main__":
    main()
