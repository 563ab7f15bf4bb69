import argparse
import logging

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import set_seed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split

from sorter.net import TrayNet

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S")
log = get_logger("parcels")


def parts(path, batch):
    kept = torch.load(path)
    everything = TensorDataset(kept["x"], kept["tray"])
    held = len(everything) // 6
    train, val = random_split(everything, [len(everything) - held, held], torch.Generator().manual_seed(1))
    return (
        DataLoader(train, batch, shuffle=True, num_workers=2, persistent_workers=True),
        DataLoader(val, 256),
    )


def held_out(accelerator, model, loader):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for x, tray in loader:
            guess, truth = accelerator.gather_for_metrics((model(x).argmax(-1), tray))
            right += int((guess == truth).sum())
            seen += len(truth)
    model.train()
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--belt")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--project", default="parcels")
    options = parser.parse_args()

    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=options.accumulate, log_with="wandb", project_dir=".")
    set_seed(10)
    loader, val = parts(options.belt, options.batch)
    log.info("%d batches for an epoch of %d processes", len(loader) // accelerator.num_processes, accelerator.num_processes)
    accelerator.init_trackers(options.project, config=vars(options), init_kwargs={"wandb": {"tags": ["depot"]}})

    model = TrayNet()
    optimizer = torch.optim.AdamW(model.parameters(), options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader) // options.accumulate)
    model, optimizer, loader, val, schedule = accelerator.prepare(model, optimizer, loader, val, schedule)
    step = 0
    for epoch in range(options.epochs):
        for x, tray in loader:
            with accelerator.accumulate(model):
                loss = cross_entropy(model(x), tray)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            step += 1
            if step % 20 == 0:
                accelerator.log({"loss": loss.item()}, step=step)
                log.info("step %d loss %.4f", step, loss.item())
        accuracy = held_out(accelerator, model, val)
        accelerator.log({"accuracy": accuracy}, step=step)
        log.info("epoch %d accuracy %.3f", epoch, accuracy)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "trays.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
