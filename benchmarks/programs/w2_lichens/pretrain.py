"""The trunk learns the six families, of which there are many pictures. It is kept in the form of an averaged model."""
import sys

import torch
from omegaconf import OmegaConf

from bark.learner import Classifier, fit
from bark.patches import FAMILIES, families

config = OmegaConf.merge(OmegaConf.load("lichens.yaml"), OmegaConf.from_cli(sys.argv[1:]))
torch.manual_seed(config.seed)
torch.set_num_threads(1)
model = Classifier(config.width, FAMILIES)
c = config.pretrain
held = fit("families", model, families(c.count, 1), families(600, 2), c.epochs, c.batch, c.lr)
mean = torch.optim.swa_utils.AveragedModel(model)
mean.update_parameters(model)
torch.save({"model": mean.state_dict(), "held": held, "config": OmegaConf.to_container(config)}, config.trunk)
print(f"kept {config.trunk}, held {held:.3f}")
