import random

import torch

SCALE = [0, 2, 4, 5, 7, 9, 11]


def melody(rng, length):
    key, degree, tune = rng.randrange(5), rng.randrange(7), []
    motif = [rng.choice([-2, -1, 1, 2]) for _ in range(4)]
    for n in range(length):
        degree = (degree + (motif[n % 4] if rng.random() < 0.9 else rng.choice([-1, 1]))) % 14
        tune.append(key + 12 * (degree // 7) + SCALE[degree % 7])
    return tune


def corpus(count, length, seed):
    rng = random.Random(seed)
    return torch.tensor([melody(rng, length) for _ in range(count)])
