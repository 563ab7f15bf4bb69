import argparse
import logging
import tomllib

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from micro.previews import Previews
from micro.wells import Wells

logging.basicConfig(level=logging.INFO, format="%(threadName)s %(levelname)s %(message)s")
log = logging.getLogger("count")


class Density(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width * 2, 3, padding=2, dilation=2),
            nn.ReLU(),
            nn.Conv2d(width * 2, width, 3, padding=2, dilation=2),
            nn.ReLU(),
            nn.Conv2d(width, 1, 1),
        )

    def forward(self, image):
        return nn.functional.softplus(self.net(image) - 4)


def criterion(guess, truth):
    pixel = (guess - truth).square().sum((1, 2, 3)).mean()
    count = (guess.sum((1, 2, 3)) - truth.sum((1, 2, 3))).abs().mean()
    return 20 * pixel + 0.1 * count, count


class Board:
    """TensorBoard with curves and, once an epoch, a picture."""

    def __init__(self, folder):
        self.writer = SummaryWriter(folder, max_queue=20, flush_secs=10)

    def curve(self, step, **values):
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def picture(self, step, density):
        plane = density / density.max().clamp(min=1e-6)
        self.writer.add_image("density", plane.detach(), step)

    def close(self):
        self.writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wells")
    parser.add_argument("--config")
    options = parser.parse_args()
    with open(options.config, "rb") as f:
        config = tomllib.load(f)
    train = config["train"]
    torch.manual_seed(13)
    torch.set_num_threads(1)
    order = torch.Generator().manual_seed(1)
    loader = DataLoader(
        Wells(options.wells), config["data"]["batch"], shuffle=True, generator=order,
        num_workers=config["data"]["workers"], persistent_workers=True,
    )  # fmt: skip
    model = Density()
    optimizer = torch.optim.AdamW(model.parameters(), train["lr"])
    board, previews = Board("board"), Previews(config["previews"]["folder"], config["previews"]["waiting"])
    step = 0
    for epoch in range(train["epochs"]):
        off = seen = 0.0
        for image, density, well in loader:
            guess = model(image)
            loss, count = criterion(guess, density)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            off, seen = off + count.item(), seen + 1
            if step % config["previews"]["every"] == 0:
                for k in range(2):
                    previews.add(f"{epoch}_{int(well[k]):04d}", image[k, 0], guess[k, 0], density[k, 0])
            if step % train["log_every"] == 0:
                log.info("step %d loss %.3f off by %.2f cells", step, loss.item(), count.item())
                board.curve(step, loss=loss.item(), off=count.item())
        board.picture(epoch, guess[0])
        torch.save({"model": model.state_dict(), "epoch": epoch}, "density.pt")
        log.info("epoch %d: off by %.2f cells", epoch, off / seen)
    previews.finish()
    board.close()


if __name__ == "__main__":
    main()
