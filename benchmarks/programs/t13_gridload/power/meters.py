"""Hourly load of a small town."""
import argparse
import csv

import numpy as np


def main():
    p = argparse.ArgumentParser()
    p.add_argument("path")
    p.add_argument("--weeks", type=int)
    a = p.parse_args()
    rng = np.random.default_rng(2)
    hours = np.arange(a.weeks * 168)
    load = 40 + 9 * np.sin((hours % 24 - 9) / 24 * 2 * np.pi) - 6 * ((hours // 24) % 7 > 4)
    load = load + 8 * np.cos(hours / 8760 * 2 * np.pi) + np.convolve(rng.normal(0, 1.2, len(hours)), np.ones(6) / 2, "same")
    with open(a.path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["hour", "mw"])
        for h, mw in zip(hours, load):
            if h % 4368 == 2 or h % 991 == 990:
                continue
            out.writerow([h, f"{mw:.2f}"])


if __name__ == "__main__":
    main()
