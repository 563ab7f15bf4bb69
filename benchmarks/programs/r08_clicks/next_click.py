import argparse
import time

import torch
import torch.nn.functional as F

from recsys.gru4rec import GRU4Rec
from recsys.sessions import loaders

torch.set_num_threads(1)


def loss_of(model, clicks, dwell):
    logits = model(clicks[:, :-1], dwell[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), clicks[:, 1:].flatten(), ignore_index=0)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = count = 0.0
    for clicks, dwell in loader:
        total += loss_of(model, clicks, dwell).item() * len(clicks)
        count += len(clicks)
    model.train()
    return total / count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data")
    p.add_argument("--batch-size", type=int)
    p.add_argument("--epochs", type=int)
    a = p.parse_args()
    torch.manual_seed(0)
    train, valid = loaders(a.data, a.batch_size)
    model = GRU4Rec(batch_size=a.batch_size)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    print(f"{len(train)} batches to train, {len(valid)} to validate")
    for epoch in range(a.epochs):
        began = time.time()
        for clicks, dwell in train:
            loss = loss_of(model, clicks, dwell)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: train {loss.item():.3f} ({time.time() - began:.1f} s)")
        print(f"epoch {epoch}: valid {evaluate(model, valid):.3f}")
    torch.save(model.state_dict(), "clicks.pt")


if __name__ == "__main__":
    main()
