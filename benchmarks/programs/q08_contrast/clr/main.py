import os
import click
import torch
from torch import nn
from clr.loss import nt_xent
from clr.track import Tracker


@click.command(context_settings={"show_default": True})
@click.option("--tau", default=0.5)
@click.option("--steps", default=60)
@click.option("--batch", default=64)
@click.option("--lr", default=3e-2)
@click.option("--keep-every", default=25)
@click.option("--tag", required=True)
def main(**o):
    torch.manual_seed(1)
    tracker = Tracker("clr", o, o["tag"])
    enc = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32))
    opt = torch.optim.SGD(enc.parameters(), lr=o["lr"], momentum=0.9, weight_decay=1e-4)
    basis = torch.randn(8, 64)
    os.makedirs("weights", exist_ok=True)
    for step in range(1, o["steps"] + 1):
        x = torch.randn(o["batch"], 8) @ basis
        loss = nt_xent(enc(x + 0.5 * torch.randn_like(x)), enc(x + 0.5 * torch.randn_like(x)), o["tau"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            tracker.log(step, loss=loss.item())
            click.echo(f"tau={o['tau']} step={step} nt_xent={loss.item():.4f}")
        if step % o["keep_every"] == 0:
            path = f"weights/tau{o['tau']}.pt"
            torch.save(enc.state_dict(), path)
            tracker.keep(path, step)
    tracker.close()
    click.echo("finished")


if __name__ == "__main__":
    main()
