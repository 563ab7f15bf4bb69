"""Takes of violin strings (synthetic): a plucked or bowed string of some seconds, as float16 on disk."""
import argparse
import json
import pathlib

import numpy as np

RATE = 4000
STRINGS = {"G": 196.0, "D": 293.7, "A": 440.0, "E": 659.3}


def take(rng, name, seconds):
    t = np.arange(int(seconds * RATE)) / RATE
    f = STRINGS[name] * 2 ** (rng.integers(0, 8) / 12)
    wave = sum(np.sin(2 * np.pi * f * k * t + rng.uniform(0, 6)) / k ** rng.uniform(0.8, 1.6) for k in range(1, 5) if f * k < RATE / 2)
    decay = np.exp(-t * rng.uniform(0.2, 2))
    return (wave * decay + 0.3 * rng.normal(size=len(t))).astype(np.float16)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="takes")
    parser.add_argument("--count", type=int, default=640)
    o = parser.parse_args()
    folder = pathlib.Path(o.out)
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(12)
    index = []
    for n in range(o.count):
        name = list(STRINGS)[n % 4]
        seconds = rng.uniform(1.3, 3.0) if n % 160 != 97 else rng.uniform(0.85, 0.95)
        np.save(folder / f"{n:04d}.npy", take(rng, name, seconds))
        index.append({"file": f"{n:04d}.npy", "string": name, "player": int(rng.integers(9))})
    (folder / "index.json").write_text(json.dumps(index))
    print(f"{o.count} takes of {len(STRINGS)} strings")


if __name__ == "__main__":
    main()
