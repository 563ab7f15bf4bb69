import logging
import time

import hydra
import torch
from hydra.utils import to_absolute_path
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from sky.night import KINDS, Nights, record

log = logging.getLogger("aurora")


def network(width, drop):
    def stage(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU())

    return nn.Sequential(
        stage(1, width), stage(width, width), stage(width, 2 * width), stage(2 * width, 2 * width),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(drop), nn.Linear(2 * width, len(KINDS)),
    )


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = torch.cat([(model(x).argmax(-1) == kind).float() for x, kind in loader])
    model.train()
    return right.mean().item()


@hydra.main(version_base=None, config_path="conf", config_name="aurora")
def main(config):
    torch.manual_seed(6)
    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy("file_system")
    data, train = config.data, config.train
    folder = to_absolute_path(data.folder)
    record(folder, data.nights, data.frames, data.side, 77)
    held = Nights(folder, data.nights - data.held, data.nights, data.crop, 1)
    seen = Nights(folder, 0, data.first, data.crop, 2)
    model = network(**config.model)
    optimizer = torch.optim.AdamW(model.parameters(), train.lr)
    start = time.time()
    for epoch in range(train.epochs):
        if epoch:
            top = data.first + epoch * data.more
            seen.let_in(top - data.more, top)
        loader = DataLoader(seen, train.batch, shuffle=True, drop_last=True)
        for _ in range(train.passes):
            for x, kind in loader:
                loss = cross_entropy(model(x), kind)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        right = accuracy(model, DataLoader(held, 28, num_workers=train.workers))
        log.info("epoch %d, %d frames, loss %.3f, held-out accuracy %.3f, %.0f s", epoch, len(seen), loss, right, time.time() - start)
        with open("aurora.pt", "wb") as f:
            torch.save(model.state_dict(), f)


if __name__ == "__main__":
    main()
