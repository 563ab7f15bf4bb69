import argparse
import logging
import math
import os

import torch
from torch.utils.data import DataLoader

from ice.net import MeltNet
from ice.tiles import parts

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("melt")


class Keeper:
    """Keeps the weights with the smallest error."""

    def __init__(self, folder):
        self.path, self.best = os.path.join(folder, "best.pt"), math.inf
        os.makedirs(folder, exist_ok=True)

    def offer(self, model, error, epoch):
        if error < self.best:
            self.best = error
            torch.save({"model": model.state_dict(), "epoch": epoch}, self.path)
            return True
        return False


class Step:
    """One optimizer step, with the guard against a spike that cost us last winter's run."""

    def __init__(self, model, lr, total, clip=2.0):
        self.model, self.clip = model, clip
        self.optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, lr, total_steps=total, pct_start=0.2)
        self.criterion = torch.nn.HuberLoss()
        self.skipped = 0

    def __call__(self, x, change):
        guess = self.model(x)
        loss = self.criterion(guess, change)
        self.schedule.step()
        if not torch.isfinite(loss) or loss > 50:
            self.skipped += 1
            log.warning("loss %.2f, step skipped (%d so far)", loss.item(), self.skipped)
            return None
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.item(), norm.item()


@torch.no_grad()
def held_out(model, loader):
    model.eval()
    total = sum((model(x) - change).abs().sum().item() for x, change in loader)
    model.train()
    return total / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--lr", type=float, default=0.12)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(5)
    torch.set_num_threads(1)
    train, val = parts(options.scenes)
    order = torch.Generator().manual_seed(8)
    loader = DataLoader(train, options.batch, shuffle=True, generator=order, drop_last=True)
    held = DataLoader(val, 100)
    model = MeltNet()
    step = Step(model, options.lr, options.epochs * len(loader))
    keeper = Keeper(options.out)
    count = 0
    for epoch in range(options.epochs):
        for x, change in loader:
            done = step(x, change)
            count += 1
            if done and count % 10 == 0:
                log.info("step %d loss %.3f norm %.2f rate %.3f", count, *done, step.schedule.get_last_lr()[0])
        better = keeper.offer(model, held_out(model, held), epoch)
        log.info("epoch %d done%s", epoch, ", best so far" if better else "")
    log.info("%d steps, %d skipped, best %.3f", count, step.skipped, keeper.best)
    best = torch.load(keeper.path)
    model.load_state_dict(best["model"])
    log.info("epoch %d again: %.3f m", best["epoch"], held_out(model, held))


if __name__ == "__main__":
    main()
