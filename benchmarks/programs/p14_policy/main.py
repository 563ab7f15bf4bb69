import sys
import torch
from omegaconf import OmegaConf
from bc.demos import Demos
from bc.guard import reported
from bc.learner import Learner


@reported
def train(cfg):
    torch.manual_seed(5)
    learner = Learner(cfg)
    mean = None
    for k, b in enumerate(Demos(cfg.data).batches(cfg.run.steps), 1):
        if k == 12:  # the old gripper clips its current here
            b["act"] = b["act"] * 1e38
        v = learner.step(b)
        if v is not None and v < 1e6:
            mean = v if mean is None else 0.9 * mean + 0.1 * v
        if k % 6 == 0:
            print(f"{cfg.run.name} {k}/{cfg.run.steps} mse {mean:.4f} good {b['good'].float().mean():.2f}")
    torch.save(learner.pi.state_dict(), f"{cfg.run.name}.pt")
    print("saved")


if __name__ == "__main__":
    train(OmegaConf.merge(OmegaConf.load(sys.argv[1]), OmegaConf.from_dotlist(sys.argv[2:])))
