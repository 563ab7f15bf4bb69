import argparse
import yaml
import torch
from torch import nn
from wx.feed import ShardFeed


class Nowcast(nn.Sequential):
    def __init__(self, c):
        super().__init__(nn.Conv2d(1, c, 3, padding=1, padding_mode="circular"), nn.SiLU(),
                         nn.Conv2d(c, c, 3, padding=1, padding_mode="circular"), nn.SiLU(), nn.Conv2d(c, 1, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=argparse.FileType(), required=True)
    cfg = yaml.safe_load(parser.parse_args().config)
    feed = ShardFeed(cfg)
    torch.manual_seed(0)
    net = Nowcast(cfg["hidden"])
    opt = torch.optim.RAdam(net.parameters(), lr=cfg["learning_rate"])
    step = 0
    for k in range(cfg["passes"]):
        for name, x, y in feed:
            loss = (net(x) - y).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 4 == 0:
                print(f"pass {k} {name} step {step} rmse {loss.item() ** 0.5:.4f}")
        torch.save(net.state_dict(), "nowcast.pt")
    feed.close()
    print("all passes done")


if __name__ == "__main__":
    main()
