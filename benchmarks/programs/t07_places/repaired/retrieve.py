import argparse

import numpy as np
import torch

from match.model import Embed

p = argparse.ArgumentParser()
p.add_argument("--views")
p.add_argument("--weights")
p.add_argument("--k", type=int)


def distances(queries, gallery):
    return torch.cdist(queries, gallery).square()


def main():
    a = p.parse_args()
    torch.set_num_threads(1)
    net = Embed()
    net.load_state_dict(torch.load(a.weights))
    views = torch.from_numpy(np.load(a.views))[200:]
    place = torch.arange(len(views)).repeat_interleave(views.shape[1])
    with torch.no_grad():
        z = net(views.flatten(0, 1))
        print(f"[retrieve] {len(z)} views of {len(views)} places", flush=True)
        d = distances(z, z).fill_diagonal_(float("inf"))
    near = place[d.topk(a.k, largest=False).indices]
    print(f"[retrieve] recall@{a.k} {(near == place[:, None]).any(-1).float().mean():.3f}")


if __name__ == "__main__":
    main()
