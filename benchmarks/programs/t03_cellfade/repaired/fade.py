import argparse
import logging
import time

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset

from stopping import Fade, Patience

logging.basicConfig(format="%(asctime)s - %(levelname)s - %(message)s", level=logging.INFO)
logger = get_logger(__name__)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--cells")
    p.add_argument("--patience", type=int)
    p.add_argument("--max_epochs", type=int)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--hidden", type=int, default=48)
    p.add_argument("--learning_rate", type=float, default=5e-3)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = count = 0.0
    for x, y in loader:
        total += (model(x) - y).abs().sum().item()
        count += len(y)
    model.train()
    return total / count


def main():
    args = parse()
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(even_batches=False))
    set_seed(args.seed)
    torch.set_num_threads(1)
    cells = torch.load(args.cells)
    train = DataLoader(TensorDataset(*cells["train"]), args.batch_size, shuffle=True)
    val = DataLoader(TensorDataset(*cells["val"]), 1)
    model = Fade(cells["train"][0].shape[1], args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    logger.info("%d batches per process, %d processes", len(train), accelerator.num_processes, main_process_only=True)
    stop = Patience(args.patience, delta=1e-3)
    for epoch in range(args.max_epochs):
        for x, y in train:
            loss = torch.nn.functional.huber_loss(model(x), y, delta=0.1)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        mae = validate(accelerator.unwrap_model(model), val)
        mae = accelerator.reduce(torch.tensor(mae), reduction="mean").item()
        logger.info("epoch %d: loss %.5f, val mae %.4f", epoch, loss.item(), mae)
        if stop(mae):
            logger.info("no better for %d epochs", args.patience)
            break
    accelerator.wait_for_everyone()
    accelerator.save(accelerator.get_state_dict(model), "fade.bin")
    logger.info("saved")
    accelerator.end_training()
    time.sleep(0.5)  # the last lines of all ranks


if __name__ == "__main__":
    main()
