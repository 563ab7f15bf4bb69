"""Outlines of vine leaves: the radius over the angle, for eight kinds of grape."""
import argparse

import numpy as np

KINDS = ["riesling", "silvaner", "merlot", "syrah", "malbec", "furmint", "gamay", "aligote"]


def outline(rng, kind):
    own = np.random.default_rng(100 + kind)
    angle = np.linspace(0, 2 * np.pi, 96, endpoint=False)
    radius = np.ones_like(angle)
    for lobe in (3, 5, 7, 11):
        radius += own.uniform(0.05, 0.22) * np.cos(lobe * angle + own.uniform(-0.8, 0.8))
    teeth = 0.06 * own.uniform(0.4, 1.6) * np.sign(np.sin(own.integers(14, 30) * angle))
    turn = int(rng.integers(0, 96))
    leaf = np.roll((radius + teeth) * rng.uniform(0.6, 1.5), turn)
    leaf += rng.normal(0, 0.05, 96)
    hole = int(rng.integers(0, 80))
    if rng.random() < 0.3:
        leaf[hole : hole + 8] *= rng.uniform(0.5, 0.9)
    return leaf.astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--per-kind", type=int)
    options = parser.parse_args()
    rng = np.random.default_rng(9)
    kinds = np.repeat(np.arange(len(KINDS)), options.per_kind)
    rng.shuffle(kinds)
    np.savez(options.out, outline=np.stack([outline(rng, k) for k in kinds]), kind=kinds)
    print(len(kinds), "leaves of", ", ".join(KINDS))


if __name__ == "__main__":
    main()
