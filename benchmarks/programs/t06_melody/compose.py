import argparse
import logging
import math

import torch
import yaml
from torch import nn

from tunes.gru import Composer
from tunes.keeping import keep, restore
from tunes.melodies import corpus

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("compose")


def schedule(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("settings")
    p.add_argument("--until", type=int)
    p.add_argument("--resume")
    a = p.parse_args()
    with open(a.settings) as f:
        conf = yaml.safe_load(f)
    torch.set_num_threads(1)
    torch.manual_seed(conf["seed"])
    tunes = corpus(conf["data"]["tunes"], conf["data"]["length"], conf["seed"])
    held = corpus(100, conf["data"]["length"], conf["seed"] + 1)
    model = Composer(**conf["model"])
    o = conf["optim"]
    optimizer = torch.optim.SGD(model.parameters(), o["lr"] * 10, momentum=o["momentum"], weight_decay=o["weight_decay"])
    scheduler = schedule(optimizer, o["warmup"], o["total_steps"])
    first = 0
    if a.resume:
        first = restore(a.resume, model, optimizer, scheduler)
        log.info("resumed at step %d from %s", first, a.resume)
    g = torch.Generator().manual_seed(conf["seed"] + first)
    for step in range(first, a.until):
        notes = tunes[torch.randint(len(tunes), (conf["batch"],), generator=g)]
        loss = nn.functional.cross_entropy(model(notes[:, :-1]).flatten(0, 1), notes[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % conf["log_every"] == 0:
            log.info("step %d loss %.4f lr %.5f", step, loss.item(), scheduler.get_last_lr()[0])
        scheduler.step()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(held[:, :-1]).flatten(0, 1), held[:, 1:].flatten())
    log.info("held out: %.4f", loss.item())
    keep(f"{conf['out']}/tunes.ckpt", a.until, model, optimizer, scheduler)


if __name__ == "__main__":
    main()
