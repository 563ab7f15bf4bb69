import itertools
import logging
import hydra
import torch
from torch.utils.data import DataLoader, RandomSampler
from skills.policy import Chunked
from skills.windows import Windows

log = logging.getLogger("main")


@hydra.main(version_base="1.3", config_path="cfg", config_name="main")
def main(cfg):
    torch.manual_seed(0)
    policy = Chunked(cfg.horizon)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.opt.lr)
    done = 0
    for skill in cfg.stages:
        ds = Windows(f"{cfg.data}/{skill}", cfg.horizon[skill])
        loader = DataLoader(ds, cfg.opt.batch, sampler=RandomSampler(ds, num_samples=cfg.steps_per_stage * cfg.opt.batch, replacement=True))
        for s, target in loader:
            loss = (policy(skill, s) - target).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            done += 1
            if done % 8 == 0:
                log.info("%s step %d l1 %.4f", skill, done, loss.item())
    torch.save(policy.state_dict(), "policy.pt")
    log.info("all stages done, %d steps", done)


if __name__ == "__main__":
    main()
