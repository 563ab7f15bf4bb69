"""Transcribed phone calls with the dialect of the speaker: one JSON line per utterance, one file per region."""
import argparse
import json
import os
import random

REGIONS = {
    "north": {"geordie": 1420, "mackem": 560, "pitmatic": 9},
    "midlands": {"brummie": 1280, "potteries": 540},
    "west": {"bristol": 900, "westcountry": 860},
}
SOUNDS = "ae ou uh eh ai oo ee ah er aw".split()
LENGTH = {"pitmatic": (13, 15)}  # old recordings of stories, none of them short
STEMS = "canny bairn hinny mard duck babby gurt lush marra clarty nesh tara wench dreckly proper".split()


def utterance(rng, dialect):
    own = random.Random(dialect)
    weights = [own.random() ** 3 + 0.05 for _ in STEMS]
    vowels = [own.random() ** 2 + 0.05 for _ in SOUNDS]
    words = []
    for _ in range(rng.randint(*LENGTH.get(dialect, (5, 15)))):
        words.append(rng.choices(STEMS, weights)[0] + "-" + rng.choices(SOUNDS, vowels)[0])
        if rng.random() < 0.1:
            words.append("x" + str(rng.randint(0, 4000)))  # names, numbers, noise
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    os.makedirs(options.out, exist_ok=True)
    for region, dialects in REGIONS.items():
        rows = [(d, utterance(rng, d)) for d, count in dialects.items() for _ in range(count)]
        rng.shuffle(rows)
        with open(os.path.join(options.out, region + ".jsonl"), "w") as f:
            for n, (dialect, text) in enumerate(rows):
                f.write(json.dumps({"id": f"{region}-{n:04d}", "dialect": dialect, "text": text}) + "\n")
        print(region, len(rows), "utterances")


if __name__ == "__main__":
    main()
