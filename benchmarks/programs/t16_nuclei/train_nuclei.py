import argparse
import collections
import json
import queue
import threading
import time

import torch

from tiles.slides import Sampler
from tiles.unet import Unet, dice_loss

torch.set_num_threads(1)


def prefetch(sampler, batch, depth):
    """Draw ahead in a thread."""
    ready = queue.Queue(depth)

    def work():
        while True:
            images, masks = sampler.draw(batch)
            ready.put((torch.from_numpy(images), torch.from_numpy(masks)))

    threading.Thread(target=work, daemon=True).start()
    while True:
        yield ready.get()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--slides", type=int)
    p.add_argument("--steps", type=int)
    p.add_argument("--lr", type=float)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--ahead", type=int, default=64)
    args = p.parse_args()
    torch.manual_seed(0)
    net = Unet()
    optimizer = torch.optim.NAdam(net.parameters(), args.lr)
    batches = prefetch(Sampler(args.slides, 3), args.batch, args.ahead)
    history = collections.defaultdict(list)
    start = time.time()
    for step in range(args.steps):
        images, masks = next(batches)
        loss = dice_loss(net(images), masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        history["dice"].append(1 - loss.detach())
        if step % 100 == 0:
            recent = torch.stack(history["dice"][-100:]).mean()
            print(f"{time.time() - start:6.1f}s step {step:5d} dice {recent:.3f}", flush=True)
    with open("history.json", "w") as f:
        json.dump({k: [float(x) for x in v] for k, v in history.items()}, f)
    torch.save(net.state_dict(), "nuclei.pt")


if __name__ == "__main__":
    main()
