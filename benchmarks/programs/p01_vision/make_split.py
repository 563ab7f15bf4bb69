import argparse, os
import numpy as np

if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--n", type=int, default=2048)
    args = ap.parse_args()
    rng = np.random.default_rng(7)
    y = rng.integers(0, 10, args.n)
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 32), np.linspace(-1, 1, 32)), 0)
    freq = 1 + np.arange(10)
    base = np.sin(freq[y][:, None, None] * (grid[0] + 0.3 * grid[1])[None])
    x = base[:, None] + 0.4 * rng.standard_normal((args.n, 3, 32, 32))
    os.makedirs(os.path.dirname(args.out), exist_ok=True)
    np.savez(args.out, x=x.astype("float16"), y=y)
    print(f"wrote {args.out}: {args.n} images")
