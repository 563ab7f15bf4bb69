import logging
import os

import click
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from hive.notebook import DeskTracker
from hive.sounds import STATES, Sounds

log = logging.getLogger("hive")


class Listener(nn.Module):
    def __init__(self, width, bands=32):
        super().__init__()
        self.rnn = nn.GRU(bands, width, 2, batch_first=True, dropout=0.1)
        self.out = nn.Linear(width, len(STATES))

    def forward(self, power):
        return self.out(self.rnn(power)[0].mean(1))


@click.command()
@click.option("--count", default=3000)
@click.option("--epochs", default=4)
@click.option("--batch", default=32)
@click.option("--accumulate", default=2)
@click.option("--width", default=64)
@click.option("--lr", default=2e-3)
@click.option("--port", default=lambda: int(os.environ.get("DESK_PORT", "0")))
def main(count, epochs, batch, accumulate, width, lr, port):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    set_seed(13)
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate, log_with=DeskTracker("bees", port))
    accelerator.init_trackers("bees", {"count": count, "batch": batch, "lr": lr})
    train = DataLoader(Sounds(count, 1), batch, shuffle=True, num_workers=1, persistent_workers=True)
    held = DataLoader(Sounds(400, 2), 100)
    model = Listener(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2 * lr, epochs * len(train) // accumulate + epochs)
    model, optimizer, train, held, schedule = accelerator.prepare(model, optimizer, train, held, schedule)
    step = 0
    for epoch in range(epochs):
        for power, state in train:
            with accelerator.accumulate(model):
                loss = cross_entropy(model(power), state)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            step += 1
            if step % 10 == 0:
                accelerator.log({"loss": loss.item()}, step)
        model.eval()
        with torch.no_grad():
            pairs = [accelerator.gather_for_metrics((model(power).argmax(-1), state)) for power, state in held]
        model.train()
        right = torch.cat([g == s for g, s in pairs]).float().mean().item()
        accelerator.log({"accuracy": right}, step)
        log.info("epoch %d loss %.3f accuracy %.3f", epoch, loss.item(), right)
    accelerator.wait_for_everyone()
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "listener.pt")
    accelerator.end_training()
    log.info("done")


if __name__ == "__main__":
    main()
