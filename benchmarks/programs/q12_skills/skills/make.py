import os
import sys
import numpy as np

out = sys.argv[1]
rng = np.random.default_rng(4)
for skill, (n, lo, hi) in {"reach": (30, 30, 60), "stack": (30, 40, 90), "wipe": (30, 48, 96)}.items():
    os.makedirs(f"{out}/{skill}", exist_ok=True)
    for k in range(n):
        T = int(rng.integers(lo, hi))
        walk = np.cumsum(rng.standard_normal((T, 7)) * 0.1, 0).astype("float32")
        if skill == "stack" and k == 3:
            walk = walk[:20]
        np.save(f"{out}/{skill}/{k:03d}.npy", walk)
