import numpy as np
import torch


def bump(t, centre, width, height):
    return height * np.exp(-0.5 * ((t - centre) / width) ** 2)


def beats(count, seed):
    """Single heart beats of four kinds, 128 samples each."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 128)
    kind = rng.integers(0, 4, count)
    out = np.empty((count, 128), np.float32)
    for n, k in enumerate(kind):
        shift = rng.normal(0, 0.05)
        wave = bump(t, 0.5 + shift, 0.018 if k != 1 else 0.034, 1.0)
        wave += bump(t, 0.36 + shift, 0.03, 0.0 if k == 2 else 0.16)
        wave += bump(t, 0.75 + shift, 0.05, -0.2 if k == 3 else 0.28)
        wave += 0.25 * np.sin(2 * np.pi * (t * rng.uniform(0.3, 1) + rng.uniform()))
        out[n] = wave * rng.uniform(0.7, 1.3) + rng.normal(0, 0.06, 128)
    return torch.from_numpy(out).unsqueeze(1), torch.from_numpy(kind)
