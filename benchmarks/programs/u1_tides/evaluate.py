import argparse

import torch
import yaml

from gauge.model import Forecaster
from gauge.windows import Windows

parser = argparse.ArgumentParser()
parser.add_argument("--config")
parser.add_argument("--weights")
options = parser.parse_args()
with open(options.config) as f:
    config = yaml.safe_load(f)
torch.set_num_threads(1)
model = Forecaster(horizon=config["data"]["horizon"], **config["model"])
model.load_state_dict(torch.load(options.weights)["model"])
model.eval()
windows = Windows(config["data"], "held", 11)
with torch.no_grad():
    past, future = windows.batch(200)
    print("by hour:", [round(v, 2) for v in (model(past) - future).square().mean(0).sqrt().tolist()[::6]])
