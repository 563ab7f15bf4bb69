import argparse
import json
import os
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch.utils.data import DataLoader

from detector.data import blobs
from detector.engine import evaluate, train_one_epoch
from detector.model import TinyDetr


def get_args_parser():
    parser = argparse.ArgumentParser("Set the detector", add_help=False)
    parser.add_argument("--lr", default=1e-3, type=float)
    parser.add_argument("--batch-size", default=4, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--eval-every", default=1, type=int)
    parser.add_argument("--output-dir", default="exp/debug")
    return parser


def main(args):
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=3))])
    torch.manual_seed(0)
    train = DataLoader(blobs(256, 0), args.batch_size, shuffle=True, num_workers=1)
    val = DataLoader(blobs(64, 1), 8)
    model = TinyDetr()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)
    out = Path(args.output_dir)
    for epoch in range(args.epochs):
        train_one_epoch(accelerator, model, train, optimizer, epoch)
        accelerator.wait_for_everyone()
        err = evaluate(accelerator, model, val) if epoch % args.eval_every == 0 else None
        if err is not None and accelerator.is_main_process:
            os.makedirs(out, exist_ok=True)
            with (out / "log.txt").open("a") as f:
                f.write(json.dumps({"epoch": epoch, "test_center_error": err}) + "\n")
            print(f"Epoch: [{epoch}] test_center_error: {err:.4f}", flush=True)
        accelerator.wait_for_everyone()
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "detector.pth")
    accelerator.end_training()


if __name__ == "__main__":
    main(argparse.ArgumentParser("detector", parents=[get_args_parser()]).parse_args())
