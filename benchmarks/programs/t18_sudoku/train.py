import argparse
import os
import signal
import time

import numpy as np
import torch
from torch import nn

from solver.grids import batch
from solver.net import Solver
from solver.state import Snapshots

torch.set_num_threads(1)


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--run")
    p.add_argument("--evaluate", action="store_true")
    p.add_argument("--budget_steps", type=int, default=10**9)
    p.add_argument("--total", type=int, default=240)
    p.add_argument("--every", type=int, default=40)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--hidden", type=float, default=0.5)
    p.add_argument("--lr", type=float, default=1.5e-3)
    return p.parse_args()


def evaluate(net, hidden):
    shown, solution = batch(np.random.default_rng(99), 400, hidden)
    with torch.no_grad():
        guess = torch.where(shown == 4, net(shown).argmax(-1), shown)
    print(f"cells {(guess == solution)[shown == 4].float().mean():.3f} grids {(guess == solution).all(1).float().mean():.3f}")


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    torch.manual_seed(6)
    net = Solver()
    optimizer = torch.optim.AdamW(net.parameters(), args.lr)
    snapshots, first = Snapshots(args.run), 0
    state = snapshots.load()
    if state:
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if args.evaluate:
        evaluate(net, args.hidden)
        return
    rng = np.random.default_rng(first)
    start = time.time()
    for step in range(first + 1, args.total + 1):
        shown, solution = batch(rng, args.batch, args.hidden)
        loss = nn.functional.cross_entropy(net(shown).flatten(0, 1), solution.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} {step - first} steps in {time.time() - start:.1f} s")
        if step % args.every == 0:
            snapshots.save(step, net=net.state_dict(), optimizer=optimizer.state_dict())
        if step - first >= args.budget_steps:
            print("the slot is used up")
            os._exit(0)


if __name__ == "__main__":
    main()
