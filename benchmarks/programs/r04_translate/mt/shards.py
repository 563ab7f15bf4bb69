import argparse
import os

import numpy as np


def sentence(rng, longest=24):
    n = int(rng.integers(6, longest))
    src = rng.integers(1, 60, n)
    return src, (src * 7 + 3) % 60


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--world", type=int)
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    for r in range(a.world):
        rng = np.random.default_rng(100 + r)
        pairs = [sentence(rng) for _ in range(16 * 60)]
        if r == 1:  # the parliament part has a few very long ones
            for k in range(16 * 41 + 3, 16 * 41 + 8):
                pairs[k] = sentence(rng, 26 + 8 * (k % 7))
        width = max(len(s) for s, _ in pairs)
        src = np.zeros((len(pairs), width), np.int64)
        tgt = np.zeros((len(pairs), width), np.int64)
        for i, (s, t) in enumerate(pairs):
            src[i, : len(s)], tgt[i, : len(t)] = s, t
        np.savez(os.path.join(a.out, f"rank{r}.npz"), src=src, tgt=tgt)


if __name__ == "__main__":
    main()
