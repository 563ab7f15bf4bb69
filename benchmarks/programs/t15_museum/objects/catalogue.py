"""A made-up museum catalogue, exported by department."""
import argparse
import csv
import pathlib
import random
import warnings

DEPARTMENTS = {
    "coins": "silver bronze denarius mint obverse portrait emperor worn".split(),
    "prints": "etching woodcut paper plate margin signed edition ink".split(),
    "textiles": "linen wool tapestry woven border silk fragment dyed".split(),
    "arms": "sword hilt blade iron crossbow steel rust scabbard".split(),
    "ceramics": "bowl glaze kiln blue white porcelain foot crackle".split(),
    "clocks": "brass dial pendulum hour escapement case enamel wound".split(),
}
COMMON = "with and of from the a small large later early century inscription damaged".split()


def record(rng, department):
    words = [rng.choice(DEPARTMENTS[department] if rng.random() < 0.4 else COMMON) for _ in range(rng.randint(6, 34))]
    return {"text": " ".join(words), "department": department}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--records", type=int)
    a = p.parse_args()
    rng = random.Random(90)
    a.out.mkdir(exist_ok=True)
    old = [d for d in DEPARTMENTS if d != "clocks"]
    rows = {"train": [record(rng, rng.choice(old)) for _ in range(a.records)]}
    rows["validation"] = [record(rng, rng.choice(old)) for _ in range(150)]
    rows["validation"] += [record(rng, "clocks") for _ in range(3)]
    warnings.warn(f"{a.records // 30} records have no accession number, exported all the same")
    for part, records in rows.items():
        with open(a.out / f"{part}.csv", "w", newline="") as f:
            out = csv.DictWriter(f, ["text", "department"])
            out.writeheader()
            out.writerows(records)


if __name__ == "__main__":
    main()
