"""A new head for the species, of which there are few pictures; the trunk stays as it is."""
import sys

import torch
from omegaconf import OmegaConf

from bark.learner import Classifier, fit
from bark.patches import SPECIES, species

config = OmegaConf.merge(OmegaConf.load("lichens.yaml"), OmegaConf.from_cli(sys.argv[1:]))
torch.manual_seed(config.seed)
torch.set_num_threads(1)
model = Classifier(config.width, SPECIES)
kept = torch.load(config.trunk)
weights = {name.removeprefix("module."): value for name, value in kept["model"].items() if "head" not in name}
model.load_state_dict(weights, strict=False)  # the head is new
model.trunk.requires_grad_(False)
print(f"trunk from {config.trunk} (held {kept['held']:.3f} of the families), {len(weights)} tensors", flush=True)
c = config.finetune
held = fit("species", model, species(c.count, 3), species(600, 4), c.epochs, c.batch, c.lr)
torch.save({"model": model.state_dict(), "held": held}, "species.pt")
print(f"species: held {held:.3f}")
