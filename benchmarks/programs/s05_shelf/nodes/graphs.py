import argparse

import numpy as np

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--nodes", type=int)
    a = p.parse_args()
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 4, a.nodes)
    pairs = rng.integers(0, a.nodes, (a.nodes * 12, 2))
    near = kind[pairs[:, 0]] == kind[pairs[:, 1]]
    pairs = pairs[near | (rng.random(len(pairs)) < 0.25)]
    np.savez(a.out, kind=kind, pairs=pairs, x=(np.eye(4)[kind] + rng.normal(0, 1.6, (a.nodes, 4))).astype("f4"))
