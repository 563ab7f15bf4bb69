import argparse

import h5py
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--features")
args = parser.parse_args()
with h5py.File(args.features) as f:
    x, y = torch.tensor(f["features"][:]).float(), torch.tensor(f["grade"][:]).long()
probe = torch.nn.Linear(x.shape[1], 3)
optimizer = torch.optim.Adam(probe.parameters(), 1e-2)
for step in range(60):
    part = torch.randint(len(x), (128,))
    loss = torch.nn.functional.cross_entropy(probe(x[part]), y[part])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"probe {len(x)} rows, loss {loss.item():.3f}, accuracy {(probe(x).argmax(1) == y).float().mean():.3f}")
