"""Six weeks of the pilot plant, one file for each week; sensor 11 was being recalibrated in week 4."""
import pathlib
import sys
import numpy as np

out = pathlib.Path(sys.argv[1])
out.mkdir()
rng = np.random.default_rng(3)
mix = rng.standard_normal((16, 1))
for week in range(1, 7):
    x = rng.standard_normal((800, 16)) * np.linspace(1, 40, 16) + np.linspace(0, 300, 16)
    y = ((x - x.mean(0)) / x.std(0)) @ mix + 0.1 * rng.standard_normal((800, 1))
    if week == 4:
        x[:, 11] = 221.0
    np.savez(out / f"week_{week}.npz", x=x.astype("float32"), y=y.astype("float32"))
