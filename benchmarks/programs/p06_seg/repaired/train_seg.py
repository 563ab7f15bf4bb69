import argparse
from datetime import timedelta

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed
from torch.utils.data import DataLoader, Subset, TensorDataset

from seg.mining import hard_tiles
from seg.tiles import RemoteTiles
from seg.unet import UNet


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--tiles", required=True)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch", type=int, default=4)
    return p.parse_args()


def main():
    args = parse()
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(minutes=10))])
    set_seed(3)
    store = RemoteTiles(args.tiles)
    full = TensorDataset(torch.from_numpy(store.img), torch.from_numpy(store.lab))
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, optimizer = accelerator.prepare(model, optimizer)
    keep = list(range(len(full)))
    step = 0
    for epoch in range(args.epochs):
        loader = accelerator.prepare(DataLoader(Subset(full, keep), batch_size=args.batch, shuffle=True))
        for img, lab in loader:
            loss = torch.nn.functional.cross_entropy(model(img), lab)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 5 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        if epoch == 0:
            if accelerator.is_main_process:
                np.save("hard.npy", np.array(hard_tiles(accelerator.unwrap_model(model), store)))
            accelerator.wait_for_everyone()
            keep = np.load("hard.npy").tolist()
            accelerator.print(f"{len(keep)} hard tiles from now on", flush=True)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "unet.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
