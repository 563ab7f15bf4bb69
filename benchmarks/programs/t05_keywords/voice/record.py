"""Short clips, written as 12-bit samples in base64, one file for each."""
import argparse
import base64
import pathlib

import numpy as np

if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--count", type=int)
    a = p.parse_args()
    a.out.mkdir(exist_ok=True)
    rng = np.random.default_rng(9)
    t = np.arange(400) / 400
    for n in range(a.count):
        word = n % 5
        wave = np.sin(2 * np.pi * (6 + 5 * word) * t + rng.uniform(0, 6)) * np.hanning(400)
        wave = wave * rng.uniform(300, 2400) + rng.normal(0, 120, 400)
        data = np.clip(wave, -2047, 2047).astype("<i2").tobytes()
        (a.out / f"{word}_{n:04d}.b64").write_bytes(base64.b64encode(data))
