import argparse

import h5py
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--slides", type=int)
args = parser.parse_args()

rng = np.random.default_rng(0)
with h5py.File(args.out, "w") as f:
    for s in range(args.slides):
        grade = s % 3
        pixels = (rng.random((160, 32, 32)) * 60 + 60 * grade + 20 * np.sin(np.arange(32) * (grade + 1))).astype(np.uint8)
        group = f.create_group(f"slide{s}")
        group.create_dataset("pixels", data=pixels, compression="gzip")
        group.attrs["grade"] = grade
