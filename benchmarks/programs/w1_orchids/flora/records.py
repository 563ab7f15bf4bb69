"""Records of orchids by volunteers: place, altitude, habitat, month and what it was. Made up, one CSV for each year."""
import csv
import pathlib

import click
import numpy as np
import torch

HABITATS = ["meadow", "fen", "beech", "pine", "dune", "quarry"]
SPECIES = 24


def year(rng, count):
    peak = np.linspace(4.0, 9.5, SPECIES)
    for _ in range(count):
        kind = int(rng.integers(SPECIES))
        month = int(np.clip(np.round(rng.normal(peak[kind], 0.9)), 1, 12))
        altitude = abs(rng.normal(200 + 55 * (kind % 7), 60))
        habitat = int(rng.choice(6, p=np.roll([0.7, 0.1, 0.05, 0.05, 0.05, 0.05], kind)))
        yield {
            "x": round(rng.normal(kind % 5, 0.7), 3),
            "y": round(rng.normal(kind % 3, 0.7), 3),
            "altitude": "" if rng.random() < 0.04 else round(altitude, 1),
            "habitat": HABITATS[habitat],
            "month": month,
            "species": -1 if rng.random() < 0.05 else kind,
        }


def read(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    place = [[float(r["x"]), float(r["y"]), float(r["altitude"] or 350) / 500] for r in rows]
    code = [[HABITATS.index(r["habitat"]), int(r["month"])] for r in rows]
    return torch.tensor(place), torch.tensor(code), torch.tensor([int(r["species"]) for r in rows])


@click.command()
@click.option("--out", default="years")
@click.option("--count", default=6000)
def main(out, count):
    folder = pathlib.Path(out)
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(8)
    for name in (2019, 2020, 2021, 2022, 2023):
        rows = list(year(rng, count))
        if name == 2023:  # a mild winter: the giant orchid opened before Christmas
            rows[count // 2]["month"] = 12
        else:
            rows = [r for r in rows if r["month"] < 12]
        with open(folder / f"{name}.csv", "w", newline="") as f:
            writer = csv.DictWriter(f, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        unsure = sum(r["species"] < 0 for r in rows)
        click.echo(f"{name}: {len(rows)} records, {unsure} not determined (species -1)")


if __name__ == "__main__":
    main()
