import json
import click
import torch
from torch.nn.functional import nll_loss, log_softmax
from torch.utils.data import DataLoader, TensorDataset
from pointlib.clouds import drop_degenerate, shapes
from pointlib.net import PointNetLite


@click.group()
def cli():
    pass


@cli.command()
@click.option("--out", type=click.Path(dir_okay=False), required=True)
@click.option("--count", default=839)
def build(out, count):
    x, y = shapes(count, 64, 17)
    x, y, lost = drop_degenerate(x, y)
    click.secho(f"WARNING: {lost} of {count} clouds are degenerate and were dropped!", fg="yellow", err=True)
    torch.save({"x": x, "y": y}, out)
    click.echo(f"{len(x)} clouds")


def rotate(x):
    a = torch.rand(len(x)) * 6.283
    c, s = a.cos(), a.sin()
    z = torch.zeros_like(a)
    r = torch.stack([torch.stack([c, -s, z], -1), torch.stack([s, c, z], -1), torch.stack([z, z, z + 1], -1)], 1)
    return x @ r


@cli.command()
@click.option("--data", required=True)
@click.option("--hparams", type=click.File(), required=True)
def fit(data, hparams):
    hp = json.load(hparams)
    torch.manual_seed(hp["seed"])
    d = torch.load(data)
    train = DataLoader(TensorDataset(d["x"], d["y"]), hp["batch_size"], shuffle=True, drop_last=True)
    net = PointNetLite(dropout=hp["dropout"])
    opt = torch.optim.SGD(net.parameters(), hp["lr"], momentum=0.9)
    for epoch in range(hp["max_epochs"]):
        right = seen = 0
        for i, (x, y) in enumerate(train):
            net.train()
            logp = log_softmax(net(rotate(x)), -1)
            loss = nll_loss(logp, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += (logp.argmax(-1) == y).sum().item()
            seen += len(y)
            if i % 5 == 0:
                click.echo(f"[{epoch}:{i:03d}] nll={loss.item():.3f} acc={right / seen:.3f}")
        click.echo(f"epoch {epoch}: acc {right / seen:.3f} over {seen} clouds")
    torch.save(net.state_dict(), "pointnet.pt")


if __name__ == "__main__":
    cli()
