"""Seismometer traces with one arrival each."""
import sys

import numpy as np


def main(path):
    rng = np.random.default_rng(66)
    t = np.arange(200)
    onset = rng.integers(30, 170, 1200)
    size = rng.lognormal(1.0, 0.7, 1200)
    trace = rng.normal(0, 0.3, (1200, 200))
    for n in range(1200):
        late = np.clip(t - onset[n], 0, None)
        trace[n] += size[n] * (late > 0) * np.exp(-late / 30) * np.sin(late * rng.uniform(0.4, 0.9))
    full = np.abs(trace) > 8
    print(f"warning: {full.any(1).sum()} traces reach full scale (8.0), limited", file=sys.stderr)
    np.save(path, np.concatenate([np.clip(trace, -8, 8), onset[:, None]], 1).astype(np.float32))


if __name__ == "__main__":
    main(sys.argv[1])
