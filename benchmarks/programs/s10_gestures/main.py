import argparse
import logging

import torch
from torch.utils.data import ConcatDataset, DataLoader

from gestures.net import GestureNet
from gestures.report import reported
from gestures.takes import Takes

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)


@reported
def main(args):
    if args.warmup == 0:
        logging.warning("no warm-up with attention: the first steps may be unstable")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    easy = Takes(args.rec, slice(0, 12))
    late = Takes(args.rec, slice(12, None))
    model = GestureNet()
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    for epoch in range(args.epochs):
        data = easy if epoch < 2 else ConcatDataset([easy, late])
        hits = 0
        for markers, kind in DataLoader(data, 20, shuffle=True):
            logits = model(markers)
            loss = torch.nn.functional.cross_entropy(logits, kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += int((logits.argmax(1) == kind).sum())
        logging.info("epoch %d: %d of %d right, loss %.4f", epoch, hits, len(data), loss.item())
    torch.save(model.state_dict(), f"{args.rec}.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rec")
    parser.add_argument("--out")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    main(parser.parse_args())
