from dataclasses import dataclass
import numpy as np
import torch
import tyro

from act.episodes import EpisodicDataset, refresh_weights
from act.policy import ACTPolicy


@dataclass
class Config:
    data: str = "data/sim_cube.hdf5"
    steps: int = 160
    batch: int = 8
    chunk: int = 20
    lr: float = 1e-3
    num_workers: int = 2
    refresh_every: int = 45
    print_every: int = 5
    seed: int = 0


def main(cfg: Config):
    torch.manual_seed(cfg.seed)
    ds = EpisodicDataset(cfg.data, cfg.chunk, cfg.steps * cfg.batch)
    loader = torch.utils.data.DataLoader(ds, cfg.batch, num_workers=cfg.num_workers, prefetch_factor=2)
    policy = ACTPolicy(cfg.chunk)
    opt = torch.optim.AdamW(policy.parameters(), lr=cfg.lr)
    running = np.ones(len(ds.names))
    for step, (qpos, action, is_pad, ep) in enumerate(loader, 1):
        out = policy(qpos, action, is_pad)
        opt.zero_grad()
        out["loss"].backward()
        opt.step()
        for e, v in zip(ep.tolist(), out["each"].tolist()):
            running[e] = 0.9 * running[e] + 0.1 * v
        if step % cfg.print_every == 0:
            print(f"step {step}/{cfg.steps}  l1 {out['l1'].item():.4f}  kl {out['kl'].item():.4f}")
        if step % cfg.refresh_every == 0:
            w = refresh_weights(cfg.data, running)
            print(f"weights refreshed, min {w.min():.2f} max {w.max():.2f}")
    torch.save(policy.state_dict(), "policy_last.ckpt")
    print("done")


if __name__ == "__main__":
    main(tyro.cli(Config))
