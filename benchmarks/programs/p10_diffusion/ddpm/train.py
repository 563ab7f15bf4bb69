import argparse
import logging
import torch
from ddpm import store
from ddpm.net import Denoiser, schedule

log = logging.getLogger("ddpm")


class EMA:
    def __init__(self, model, decay=0.9999):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)


def data(n, g):
    k = torch.randint(1, 5, (n, 1), generator=g)
    return torch.sin(k * torch.linspace(0, 6.28, 64)[None] + torch.rand(n, 1, generator=g))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, required=True)
    ap.add_argument("--ckpt", required=True)
    ap.add_argument("--resume", action="store_true")
    ap.add_argument("--save-every", type=int, default=40)
    ap.add_argument("--lr", type=float, default=2e-3)
    a = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    net, abar = Denoiser(), schedule()
    opt = torch.optim.AdamW(net.parameters(), lr=a.lr)
    ema = EMA(net)
    first = 0
    if a.steps < 1 / (1 - ema.decay):
        log.warning("EMA decay %s looks back further than the %d steps of this run", ema.decay, a.steps)
    if a.resume:
        ck = store.load(a.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        ema.shadow = ck["ema"]
        first = ck["step"]
        g.set_state(ck["rng"])
        log.info("resumed at step %d", first)
    for step in range(first + 1, a.steps + 1):
        x = data(64, g)
        t = torch.randint(0, 100, (64,), generator=g)
        eps = torch.randn(x.shape, generator=g)
        noisy = abar[t, None].sqrt() * x + (1 - abar[t, None]).sqrt() * eps
        loss = ((net(noisy, t) - eps) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(net)
        if step % 10 == 0:
            log.info("step %d loss %.4f", step, loss.item())
        if step % a.save_every == 0:
            store.save({"net": net.state_dict(), "opt": opt.state_dict(), "ema": ema.shadow, "step": step, "rng": g.get_state()}, a.ckpt)
    log.info("finished at step %d", a.steps)


if __name__ == "__main__":
    main()
