import argparse
import os

import numpy as np

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--days", type=int)
    a = p.parse_args()
    os.makedirs(a.out)
    rng = np.random.default_rng(4)
    for d in range(a.days):
        price = 100 + np.cumsum(rng.normal(0, 0.1, 400))
        spread = np.abs(rng.normal(0.02, 0.01, 400))
        if d % 13 == 5:
            spread[:4] = -0.01  # crossed book at the open
        columns = {"price": price, "spread": spread, "volume": rng.poisson(20, 400)}
        if d == 43:  # half holiday: the exchange sends "vol" that day
            columns["vol"] = columns.pop("volume")
        np.savez(os.path.join(a.out, f"day_{d:03d}.npz"), **columns)
