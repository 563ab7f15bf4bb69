"""Frames along diver transects, annotated as coral, algae or sand. 255 is what nobody annotated."""
import argparse

import h5py
import numpy as np

KINDS = ["sand", "coral", "algae"]


def frame(rng, depth):
    y, x = np.mgrid[0:32, 0:32] / 32.0
    image = np.stack([np.full((32, 32), v) for v in (0.6, 0.55, 0.4)])
    mask = np.zeros((32, 32), np.uint8)
    for _ in range(rng.integers(1, 4)):
        kind = int(rng.integers(1, 3))
        cy, cx, r = rng.random(), rng.random(), rng.uniform(0.1, 0.3)
        blob = (y - cy) ** 2 + (x - cx) ** 2 < (r * (1 + 0.2 * np.sin(9 * np.arctan2(y - cy, x - cx)))) ** 2
        mask[blob] = kind
        image[:, blob] = np.array([(0.85, 0.45, 0.5), (0.3, 0.6, 0.25)])[kind - 1][:, None]
    image *= np.exp(-depth * np.array([0.12, 0.04, 0.02]))[:, None, None]
    return (image + rng.normal(0, 0.06, image.shape)).astype(np.float32), mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--transects", type=int)
    parser.add_argument("--frames", type=int)
    options = parser.parse_args()
    rng = np.random.default_rng(1842)
    done = 0
    with h5py.File(options.out, "w") as f:
        for t in range(options.transects):
            depth = rng.uniform(2, 18)
            images, masks = zip(*(frame(rng, depth) for _ in range(options.frames)))
            masks = np.stack(masks)
            if t == 23:
                masks[:] = 255  # the annotator left
            else:
                masks[rng.random(options.frames) < 0.1] = 255
            group = f.create_group(f"T{t:03d}")
            group["image"], group["mask"] = np.stack(images), masks
            group.attrs["depth"] = depth
            done += int((masks != 255).any((1, 2)).sum())
    print(f"{options.transects} transects, {done} of {options.transects * options.frames} frames annotated")


if __name__ == "__main__":
    main()
