import argparse

import torch
from torch.utils.data import DataLoader

from reef.frames import Frames
from reef.net import ReefNet
from reef.transects import KINDS

parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--weights")
options = parser.parse_args()
model = ReefNet().eval()
model.load_state_dict(torch.load(options.weights))
counts = torch.zeros(len(KINDS))
with torch.no_grad():
    for image, _ in DataLoader(Frames(options.data), 64):
        counts += torch.bincount(model(image).argmax(1).flatten(), minlength=len(KINDS))
print({name: round(share, 3) for name, share in zip(KINDS, (counts / counts.sum()).tolist())})
