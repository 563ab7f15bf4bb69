import sys

import torch
from torch import nn

from chem_ft.nets import trunk
from chem_ft.spectra import spectra

torch.set_num_threads(1)
torch.manual_seed(0)
body = trunk()
model = nn.Sequential(body, nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
x, place = spectra(1000, "place", 0)
for step in range(80):
    part = torch.randint(1000, (32,))
    loss = nn.functional.mse_loss(model(x[part]).squeeze(1), place[part])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("pretrained, loss", round(loss.item(), 5))
torch.save(body.state_dict(), sys.argv[1])
