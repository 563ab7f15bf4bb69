import argparse
import logging

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

from kelp.flights import BANDS
from kelp.strips import Pixels
from kelp.whites import White
from kelp.wire import Wire

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("grow")


class KelpNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.bands = nn.Sequential(nn.Linear(BANDS, width), nn.GELU(), nn.LayerNorm(width))
        self.along = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(width, 1)

    def forward(self, spectrum):
        return self.out(self.along(self.bands(spectrum))[0]).squeeze(-1).sigmoid()


def held_out(accelerator, model, loader):
    model.eval()
    off = seen = 0.0
    with torch.no_grad():
        for spectrum, share in loader:
            guess, truth = accelerator.gather_for_metrics((model(spectrum), share))
            off += (guess - truth).abs().sum().item()
            seen += truth.numel()
    model.train()
    return off / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flights")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--follow-from", type=int, default=2, help="epoch from which new strips are expected")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--ship", default="127.0.0.1:29990")
    options = parser.parse_args()
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    set_seed(19)
    wire = Wire("scores.jsonl", options.ship)
    white = White(options.flights)
    log.info("white reference of %d bands, highest %.3f", len(white.level), white.level.max())
    train = DataLoader(Pixels(options.flights, white, "train"), options.batch, shuffle=True, num_workers=options.workers)
    held = DataLoader(Pixels(options.flights, white, "held"), 32)
    model = KelpNet()
    optimizer = torch.optim.AdamW(model.parameters(), options.lr)
    model, optimizer, train, held = accelerator.prepare(model, optimizer, train, held)
    step = 0
    for epoch in range(options.epochs):
        if epoch == options.follow_from:
            white.start()
            log.info("following the plane")
        for spectrum, share in train:
            loss = nn.functional.smooth_l1_loss(model(spectrum), share, beta=0.1)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 10 == 0:
                log.info("step %d loss %.4f", step, loss.item())
                wire.send(step=step, loss=loss.item())
        error = held_out(accelerator, model, held)
        wire.send(epoch=epoch, held=error)
        log.info("epoch %d: off by %.3f, white of round %d", epoch, error, white.rounds)
    accelerator.save_model(model, "kelp_model")


if __name__ == "__main__":
    main()
