import time

import click
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from flora.net import OrchidNet
from flora.records import SPECIES, read


@torch.no_grad()
def top(net, loader, k=3):
    """Share of the determined records whose species is among the first k guesses."""
    net.eval()
    hits = []
    for place, code, species in loader:
        sure = species >= 0
        guess = net(place[sure], code[sure]).topk(k).indices
        hits.append((guess == species[sure, None]).any(-1).float())
    net.train()
    return torch.cat(hits).mean().item()


@click.command()
@click.option("--years", default="years")
@click.option("--train", multiple=True, type=int, default=(2019, 2020, 2021))
@click.option("--val", default=2022)
@click.option("--test", default=2023)
@click.option("--width", default=160)
@click.option("--drop", default=0.1)
@click.option("--batch", default=64)
@click.option("--epochs", default=5)
@click.option("--lr", default=2e-3)
def main(years, train, val, test, width, drop, batch, epochs, lr):
    torch.manual_seed(9)
    torch.set_num_threads(1)
    parts = [read(f"{years}/{y}.csv") for y in train]
    seen = torch.cat([p[2] for p in parts])
    loader = DataLoader(TensorDataset(*[torch.cat(c) for c in zip(*parts)]), batch, shuffle=True)
    held, late = [DataLoader(TensorDataset(*read(f"{years}/{y}.csv")), 250) for y in (val, test)]
    counts = seen[seen >= 0].bincount(minlength=SPECIES)
    click.echo(f"{len(seen)} records, {SPECIES} species, rarest seen {counts.min()} times")
    net = OrchidNet(width, drop)
    optimizer = torch.optim.AdamW(net.parameters(), lr)
    weight = (counts.float().mean() / counts).sqrt()
    start = time.time()
    for epoch in range(epochs):
        total = 0.0
        for place, code, species in loader:
            loss = cross_entropy(net(place, code), species, weight, ignore_index=-1, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        click.echo(f"epoch {epoch} loss {total / len(loader):.3f} top-3 {top(net, held):.3f} ({time.time() - start:.0f} s)")
        torch.save({"net": net.state_dict(), "epoch": epoch}, "orchids.pt")
    click.echo(f"test {test}: top-3 {top(net, late):.3f}")


if __name__ == "__main__":
    main()
