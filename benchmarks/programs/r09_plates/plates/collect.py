"""The wells of three sites in one table."""
import sys

import numpy as np
import pandas as pd

PHENOTYPES = ["normal", "round", "long", "dividing", "dead", "granular", "giant", "bi-nuclear", "vacuole", "debris"]


def site(rng, name, kinds, count):
    kind = rng.integers(0, kinds, count)
    columns = {f"f{k}": rng.normal(np.sin(kind + k), 0.4).astype("float32") for k in range(12)}
    columns["f3"][rng.random(count) < 0.01] = np.nan
    return pd.DataFrame({"site": name, "phenotype": [PHENOTYPES[k] for k in kind], **columns})


def main(path):
    rng = np.random.default_rng(1)
    frame = pd.concat([site(rng, "north", 9, 900), site(rng, "harbour", 9, 900), site(rng, "hill", 10, 120)])
    frame["code"] = frame["phenotype"].map({p: i for i, p in enumerate(PHENOTYPES)}).astype("int64")
    frame.to_parquet(path, index=False)


if __name__ == "__main__":
    main(sys.argv[1])
