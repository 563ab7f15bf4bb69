#!/usr/bin/env python3
import argparse
import logging
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch.utils.data import DataLoader, TensorDataset

from lib.models import create_model
from lib.utils import AverageMeter, FeatureBank, accuracy, setup_default_logging

_logger = logging.getLogger("train")


def parse_args():
    config_parser = argparse.ArgumentParser(add_help=False)
    config_parser.add_argument("-c", "--config", default="", metavar="FILE")
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/shapes.npz")
    parser.add_argument("--model", default="rn_tiny")
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("-b", "--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--warmup-steps", type=int, default=20)
    parser.add_argument("-j", "--workers", type=int, default=2)
    parser.add_argument("--prefetch-factor", type=int, default=2)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--bank-size", type=int, default=64)
    parser.add_argument("--output", default="output/debug")
    known, rest = config_parser.parse_known_args()
    if known.config:
        with open(known.config) as f:
            parser.set_defaults(**yaml.safe_load(f))
    return parser.parse_args(rest)


def train_one_epoch(epoch, model, loader, optimizer, scheduler, args, bank):
    batch_time, losses_m, top1_m = AverageMeter(), AverageMeter(), AverageMeter()
    model.train()
    end = time.time()
    last_idx = len(loader) - 1
    for batch_idx, (inp, target) in enumerate(loader):
        output, feats = model(inp.float())
        loss = F.cross_entropy(output, target, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward(retain_graph=False)
        optimizer.step()
        scheduler.step()

        aux = F.cross_entropy(model(inp.float().flip(-1))[0], target)
        acc1 = accuracy(output.detach(), target)[0]
        losses_m.update(aux, inp.size(0))
        top1_m.update(acc1.item(), inp.size(0))
        bank.push(feats, target)
        batch_time.update(time.time() - end)
        end = time.time()
        if batch_idx == last_idx or batch_idx % args.log_interval == 0:
            _logger.info(
                "Train: {} [{:>4d}/{}]  Loss: {:#.4g} ({:#.3g})  Acc@1: {:.1f} ({:.1f})  Time: {:.3f}s  LR: {:.3e}".format(
                    epoch, batch_idx, len(loader), loss.item(), float(losses_m.avg),
                    top1_m.val, top1_m.avg, batch_time.val, optimizer.param_groups[0]["lr"],
                )
            )
    return {"loss": float(losses_m.avg), "top1": top1_m.avg}


def main():
    setup_default_logging()
    args = parse_args()
    torch.manual_seed(42)
    os.makedirs(args.output, exist_ok=True)
    z = np.load(args.data)
    ds = TensorDataset(torch.from_numpy(z["x"]), torch.from_numpy(z["y"]))
    loader = DataLoader(ds, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True,
                        prefetch_factor=args.prefetch_factor, persistent_workers=True)
    model = create_model(args.model, width=args.width)
    _logger.info("Model %s created, param count: %d", args.model, sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum,
                                weight_decay=args.weight_decay, nesterov=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / args.warmup_steps))
    bank = FeatureBank(args.bank_size)
    for epoch in range(args.epochs):
        metrics = train_one_epoch(epoch, model, loader, optimizer, scheduler, args, bank)
        _logger.info("epoch %d done: %s", epoch, metrics)
        torch.save({"state_dict": model.state_dict(), "epoch": epoch, "args": vars(args)}, os.path.join(args.output, "last.pth"))


if __name__ == "__main__":
    main()
