import argparse
import resource
import sys

import torch
from torch.utils.data import DataLoader

from depthnet.network import network
from depthnet.scenes import Scenes


def masked_log_error(pred, depth):
    seen = depth > 0
    return (pred.clamp_min(1e-3)[seen].log() - depth[seen].log()).abs().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes")
    parser.add_argument("--rounds", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    scenes = Scenes(args.scenes)
    loader = DataLoader(scenes, batch_size=6, shuffle=True)
    net = network()
    optimizer = torch.optim.NAdam(net.parameters(), lr=4e-3)
    for n in range(args.rounds):
        for k, (shade, depth) in enumerate(loader):
            loss = masked_log_error(net(shade), depth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if k % 5 == 0:
                rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(f"round {n} batch {k:2d} loss {loss.item():.4f} peak rss {rss} MB")
                if len(scenes.thumbnails) > 60:
                    print(f"note: {len(scenes.thumbnails)} thumbnails kept in memory", file=sys.stderr)
        torch.save(net.state_dict(), "depth.pt")


if __name__ == "__main__":
    main()
