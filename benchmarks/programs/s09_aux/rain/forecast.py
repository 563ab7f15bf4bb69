import sys

import torch

from rain.model import RainNet

net = RainNet()
net.load_state_dict(torch.load(sys.argv[1]))
with torch.no_grad():
    low = torch.linspace(0, -2, 24)[None]
    print("rain as the pressure falls:", round(net(low)[0].item(), 2), "mm")
