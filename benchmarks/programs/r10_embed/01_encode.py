import argparse
import warnings

import torch
from torch.utils.data import DataLoader

from wsi.encoder import Encoder, views
from wsi.reader import Patches
from wsi.sink import Sink

torch.set_num_threads(1)


def train_a_little(encoder, loader):
    head = torch.nn.Linear(256, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], 2e-3)
    for k, (x, grade) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(head(encoder(x)), grade)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if k % 5 == 0:
            print(f"encoder step {k} loss {loss.item():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patches")
    parser.add_argument("--out")
    parser.add_argument("--views", type=int)
    args = parser.parse_args()
    warnings.warn("HDF5 file locking is switched off, concurrent writers would corrupt the file", stacklevel=1)
    torch.manual_seed(0)
    encoder = Encoder()
    train_a_little(encoder, DataLoader(Patches(args.patches), 32, shuffle=True, num_workers=2))
    encoder.eval()
    sink = Sink(args.out, 256)
    with torch.no_grad():
        for n, (x, grade) in enumerate(DataLoader(Patches(args.patches), 32, num_workers=2)):
            for view in views(x, args.views):
                sink.append(encoder(view).numpy(), grade.numpy())
            if n % 5 == 0:
                print(f"{n * 32} patches encoded", flush=True)
    sink.file.close()


if __name__ == "__main__":
    main()
