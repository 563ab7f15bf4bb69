import argparse
import logging
import time
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from ssl_lib.groups import param_groups
from ssl_lib.nets import Classifier
from ssl_lib.state import State


def batches(seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(40, 6, generator=torch.Generator().manual_seed(99))
    while True:
        x = torch.randn(32, 40, generator=g)
        yield x, (x @ w).argmax(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--stage", choices=("probe", "full"), required=True)
    ap.add_argument("--steps", type=int)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--wd", type=float, default=0.02)
    ap.add_argument("--save")
    ap.add_argument("--resume")
    a = ap.parse_args()
    dist.init_process_group("gloo")
    r = dist.get_rank()
    logging.basicConfig(level=logging.INFO if r == 0 else logging.ERROR, format=f"%(asctime)s {a.stage} %(message)s", datefmt="%T")
    log = logging.getLogger("warm")
    torch.manual_seed(0)
    model = Classifier()
    opt = torch.optim.AdamW(param_groups(model, a.stage, a.lr, a.wd))
    ddp = DDP(model)
    state = State(model=model, optimizer=opt)
    if a.resume:
        state.load(a.resume)
    feed = batches(10 * state.step + r)
    t = time.time()
    while state.step < a.steps:
        x, y = next(feed)
        loss = torch.nn.functional.cross_entropy(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        state.step += 1
        if state.step % 5 == 0:
            if time.time() - t > 0.5:
                log.warning("slow steps: %.2f s for the last five", time.time() - t)
            t = time.time()
            log.info("step %d xent %.4f", state.step, loss.item())
    state.save(a.save)
    log.info("stage %s done", a.stage)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
