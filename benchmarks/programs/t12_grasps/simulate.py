"""Grasps of a two-finger gripper on boxes: pose, box, and whether it held."""
import sys

import numpy as np


def main(path, count):
    rng = np.random.default_rng(6)
    box = rng.uniform(0.02, 0.12, (count, 3))
    offset = rng.normal(0, 0.03, (count, 3))
    angle = rng.uniform(-np.pi, np.pi, count)
    force = rng.uniform(1, 20, count)
    width = np.abs(np.cos(angle)) * box[:, 0] + np.abs(np.sin(angle)) * box[:, 1]
    weight = box.prod(1) * 9000
    held = (width < 0.1) & (np.abs(offset[:, :2]).sum(1) < box[:, :2].sum(1) * 0.4) & (force * 0.6 > weight)
    held ^= rng.random(count) < 0.03
    table = np.column_stack([box * 20, offset * 30, np.cos(angle), np.sin(angle), force / 10, held])
    np.save(path, table.astype(np.float32))
    print(f"{count} grasps, {held.mean():.2f} held")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
