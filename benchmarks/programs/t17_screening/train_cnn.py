import argparse
import logging

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lesions.cnn import load, network

logging.captureWarnings(True)
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data")
    p.add_argument("--epochs", type=int)
    p.add_argument("--lr", type=float, default=6e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(*load(args.data, "train")), 25, shuffle=True)
    net = network()
    optimizer = torch.optim.RAdam(net.parameters(), args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    for epoch in range(args.epochs):
        for step, (images, label) in enumerate(loader):
            loss = nn.functional.binary_cross_entropy_with_logits(net(images), label)
            optimizer.zero_grad()
            loss.backward()
            scheduler.step()
            optimizer.step()
            if step % 10 == 0:
                logging.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
    torch.save(net, "model.pt")
    logging.info("written model.pt")


if __name__ == "__main__":
    main()
