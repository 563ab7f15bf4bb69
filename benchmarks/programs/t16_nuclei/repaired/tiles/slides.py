import functools

import numpy as np


class Slide:
    """A stained slide, drawn from its seed, and the mask of its nuclei."""

    def __init__(self, seed, size=512):
        rng = np.random.default_rng(seed)
        image = rng.normal(0.8, 0.04, (3, size, size)).astype(np.float32)
        mask = np.zeros((size, size), np.float32)
        rows, columns = np.mgrid[:size, :size]
        for y, x, r in zip(rng.integers(0, size, 160), rng.integers(0, size, 160), rng.integers(4, 10, 160)):
            top, left = slice(max(y - r, 0), y + r), slice(max(x - r, 0), x + r)
            inside = (rows[top, left] - y) ** 2 + (columns[top, left] - x) ** 2 < r * r
            mask[top, left][inside] = 1
        image -= mask * np.array([0.35, 0.5, 0.15], np.float32)[:, None, None]
        self.seed, self.image, self.mask = seed, image, mask

    @functools.lru_cache(maxsize=256)
    def tile(self, y, x, turn, size=96):
        image = np.rot90(self.image[:, y : y + size, x : x + size], turn, (1, 2))
        mask = np.rot90(self.mask[y : y + size, x : x + size], turn)
        return np.ascontiguousarray(image), np.ascontiguousarray(mask)


class Sampler:
    def __init__(self, count, seed):
        self.slides = [Slide(s) for s in range(count)]
        self.rng = np.random.default_rng(seed)

    def draw(self, batch, size=96):
        images, masks = [], []
        for _ in range(batch):
            slide = self.slides[self.rng.integers(len(self.slides))]
            y, x = self.rng.integers(0, slide.mask.shape[0] - size, 2)
            image, mask = slide.tile(int(y), int(x), int(self.rng.integers(4)))
            images.append(image)
            masks.append(mask)
        return np.stack(images), np.stack(masks)
