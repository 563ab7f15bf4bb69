"""Two little corpora with different habits."""
import json
import pathlib
import random
import sys

GENERAL = "the a river town walked over slowly bright stone bird house morning rain".split()
REVIEWS = "terrible awful great loved plot actor boring film would watch again never".split()


def lines(words, count, rng):
    for _ in range(count):
        start = rng.randrange(len(words))
        yield " ".join(words[(start + 2 * i + rng.randrange(2)) % len(words)] for i in range(rng.randint(8, 30)))


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    for name, words in (("general", GENERAL), ("reviews", REVIEWS)):
        with open(folder / f"{name}.jsonl", "w") as out:
            for text in lines(words, 400, rng):
                out.write(json.dumps({"text": text}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
