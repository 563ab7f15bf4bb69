import torch
from torch import nn


class Learner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.pi = nn.Sequential(nn.Linear(10, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 3))
        self.opt = torch.optim.AdamW(self.pi.parameters(), lr=float(cfg.optim.lr))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg.optim.init_scale)
        self.scale = self.scaler.get_scale()

    def loss(self, b):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            err = (self.pi(b["obs"]) - b["act"]).square().mean(-1)
        return err.float()[b["good"]].mean()

    def backward(self, b):
        if not b["good"].any():
            return None
        loss = self.loss(b)
        self.scaler.scale(loss).backward()
        return loss.item()

    def step(self, b):
        self.opt.zero_grad(set_to_none=True)
        value = self.backward(b)
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.pi.parameters(), self.cfg.optim.clip)
        self.scaler.step(self.opt)
        self.scaler.update()
        if self.scaler.get_scale() < self.scale:
            self.scale = self.scaler.get_scale()
            print(f"overflow: loss scale lowered to {self.scale:.0f}")
        return value
