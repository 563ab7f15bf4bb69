import argparse
import os
import resource
import time
import torch
from torch import nn
from .model import TinyCTC


def utterances(step, batch=8, frames=160, tokens=20):
    g = torch.Generator().manual_seed(step)
    y = torch.randint(1, tokens, (batch, 10), generator=g)
    codes = torch.randn(tokens, 40, generator=torch.Generator().manual_seed(0))
    x = codes[y].repeat_interleave(frames // 10, 1).transpose(1, 2) + 0.5 * torch.randn(batch, 40, frames, generator=g)
    return x, y


class Trainer:
    def __init__(self, opts):
        self.o = opts
        torch.manual_seed(1)
        self.model = TinyCTC()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=opts.lr)
        self.crit = nn.CTCLoss(zero_infinity=True)
        os.makedirs(opts.out, exist_ok=True)

    def one(self, step):
        x, y = utterances(step)
        lp = self.model(x).transpose(0, 1)
        loss = self.crit(lp, y, torch.full((8,), lp.size(0)), torch.full((8,), 10))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def run(self):
        t = time.time()
        for step in range(1, self.o.steps + 1):
            loss = self.one(step)
            time.sleep(max(0.0, 0.15 - (time.time() - t)))
            t = time.time()
            if step % 5 == 0:
                rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(f"{time.strftime('%F %T')} | step {step:4d}/{self.o.steps} | ctc {loss:.3f} | peak rss {rss} MB")
            if step % 50 == 0:
                torch.save(self.model.state_dict(), f"{self.o.out}/step{step}.pt")
        print("training finished")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int)
    p.add_argument("--out")
    p.add_argument("--lr", type=float, default=3e-3)
    Trainer(p.parse_args()).run()
