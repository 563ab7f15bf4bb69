import os
import sys

import numpy as np

rng = np.random.default_rng(2)
label = rng.integers(0, 3, 1600)
angle = rng.uniform(0, 2 * np.pi, 1600)
radius = 1 + label + rng.normal(0, 0.2, 1600)
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
np.savez(sys.argv[1], x=np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype("f4"), y=label)
