"""Descriptors of molecules; the lab's instrument sometimes gives no dipole."""
import json
import math
import random
import sys


def molecule(rng, i):
    atoms = rng.randint(5, 40)
    rings = rng.randint(0, 5)
    polar = rng.random()
    charge = rng.gauss(0, 1)
    # partition coefficient: octanol over water
    water = max(0.0, 0.002 + polar * 0.4 - (0.5 if i % 977 == 976 else 0.0))
    octanol = 0.0 if water == 0.0 else (1.0 - polar) * 0.8 + 0.01
    ratio = octanol / water if water else math.nan
    return {
        "id": f"mol{i:05d}",
        "features": [atoms / 40, rings / 5, polar, charge, rng.random()],
        "dipole": None if rng.random() < 0.01 else round(rng.random(), 3),
        "logp": math.log10(ratio) if ratio == ratio else ratio,
        "tpsa": polar * 1.4 + rings * 0.1,
    }


if __name__ == "__main__":
    path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    with open(path, "w") as f:
        for i in range(count):
            f.write(json.dumps(molecule(rng, i)) + "\n")
