import argparse

import torch
from torch.nn.functional import cross_entropy

from stream.model import SpeedNet
from stream.probe import reachable

parser = argparse.ArgumentParser()
parser.add_argument("--clips")
parser.add_argument("--out")
parser.add_argument("--board")
args = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
reachable(args.board)
clips = torch.load(args.clips)
model = SpeedNet()
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
for step in range(60):
    part = torch.randint(len(clips["speed"]), (32,))
    loss = cross_entropy(model(clips["frames"][part]), clips["speed"][part])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("warm start, loss", round(loss.item(), 3))
torch.save(model.state_dict(), args.out)
