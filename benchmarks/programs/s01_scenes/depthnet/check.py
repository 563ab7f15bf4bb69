import torch

from depthnet.network import network
from depthnet.scenes import Scenes

net = network()
net.load_state_dict(torch.load("depth.pt"))
scenes = Scenes("scenes", augment=False)
with torch.no_grad():
    errors = [(net(scenes[i][0][None]) - scenes[i][1]).abs().median().item() for i in range(5)]
print("median error of five scenes:", [round(e, 3) for e in errors])
