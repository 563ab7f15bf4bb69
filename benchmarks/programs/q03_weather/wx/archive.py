"""Writes the shards as the archive delivers them: 2017 to 2019 come from the old robot tape."""
import argparse
import os
import struct
import numpy as np

if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out")
    out = ap.parse_args().out
    os.makedirs(out, exist_ok=True)
    rng = np.random.default_rng(12)
    field = rng.standard_normal((1, 16, 16))
    for k in range(8):
        frames = []
        for _ in range(129):
            field = 0.9 * np.roll(field, 1, -1) + 0.3 * rng.standard_normal(field.shape)
            frames.append(field[0])
        a = np.array(frames, dtype="<f4")
        if k == 3:
            a[40:42] = -9999.0
        version = 1 if k == 6 else 2
        with open(f"{out}/wx_{2013 + k}.bin", "wb") as f:
            f.write(b"WTHR" + struct.pack("<HHHH", version, *a.shape) + (a * 100 if version == 1 else a).astype("<i2" if version == 1 else "<f4").tobytes())
