import sys

import numpy as np

rng = np.random.default_rng(8)
count, width = 1900, 20
items = np.zeros((count, width), np.int16)
for i in range(count):
    n = rng.integers(4, width + 1)
    start, stride = rng.integers(1, 50), rng.integers(1, 4)
    items[i, :n] = 1 + (start + stride * np.arange(n)) % 50
np.savez(sys.argv[1], items=items, dwell=rng.integers(1, 120, (count, width)).astype(np.int8))
