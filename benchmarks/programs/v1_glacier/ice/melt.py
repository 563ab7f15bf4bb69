import argparse

import torch
from torch.utils.data import DataLoader

from ice.net import MeltNet
from ice.tiles import Tiles, load

parser = argparse.ArgumentParser()
parser.add_argument("--weights")
parser.add_argument("--scenes")
options = parser.parse_args()
torch.set_num_threads(1)
model = MeltNet().eval()
model.load_state_dict(torch.load(options.weights)["model"])
with torch.no_grad():
    change = torch.cat([model(x) for x, _ in DataLoader(Tiles(*load(options.scenes), train=False), 128)])
print(f"mean change {change.mean():.2f} m over {len(change)} tiles")
