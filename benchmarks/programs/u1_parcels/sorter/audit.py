import argparse

import torch

from sorter.net import TrayNet

parser = argparse.ArgumentParser()
parser.add_argument("--belt")
parser.add_argument("--weights")
options = parser.parse_args()
kept = torch.load(options.belt)
model = TrayNet().eval()
model.load_state_dict(torch.load(options.weights))
with torch.no_grad():
    guess = model(kept["x"]).argmax(1)
for tray in range(int(kept["tray"].max()) + 1):
    mine = kept["tray"] == tray
    print(f"tray {tray:2d}: {int(mine.sum()):4d} parcels, {(guess[mine] == tray).float().mean():.2f} right")
