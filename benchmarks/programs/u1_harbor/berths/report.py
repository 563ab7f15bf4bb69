import argparse

import torch

from berths.net import Embedder

parser = argparse.ArgumentParser()
parser.add_argument("--weights")
parser.add_argument("--ships")
options = parser.parse_args()
kept = torch.load(options.weights)
model = Embedder(kept["width"])
model.load_state_dict(kept["model"])
ships = torch.load(options.ships)
with torch.no_grad():
    table = model(ships["views"])
near = table @ table.T - 2 * torch.eye(len(table))
print("right hull first:", round((ships["hull"][near.argmax(1)] == ships["hull"]).float().mean().item(), 3))
