import argparse

import torch
from torch import nn

from ecg.beats import beats
from ecg.encoder import Encoder


def pretrained(path):
    """The encoder alone; the projector of the pretraining is not needed."""
    state = torch.load(path, map_location="cpu", weights_only=False)["state_dict"]
    encoder = Encoder()
    encoder.load_state_dict(state, strict=False)
    return encoder


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--weights")
    p.add_argument("--labels", type=int)
    p.add_argument("--steps", type=int)
    p.add_argument("--lr", type=float, default=0.02)
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    encoder = pretrained(a.weights).eval().requires_grad_(False)
    x, y = beats(a.labels, 1)
    held_x, held_y = beats(800, 2)
    with torch.no_grad():
        z, held_z = encoder(x), encoder(held_x)
    head = nn.Linear(z.shape[1], 4)
    optimizer = torch.optim.Adam(head.parameters(), a.lr)
    for step in range(a.steps):
        loss = nn.functional.cross_entropy(head(z), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"probe step {step} loss {loss.item():.4f}")
    accuracy = (head(held_z).argmax(-1) == held_y).float().mean()
    print(f"probe accuracy {accuracy:.3f} with {a.labels} labels")
    torch.save(head.state_dict(), "probe.pt")


if __name__ == "__main__":
    main()
