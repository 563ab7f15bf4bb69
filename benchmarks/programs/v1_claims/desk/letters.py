"""Letters to an insurer, and the desk that had to answer each."""
import argparse
import json
import random

DESKS = {
    "water": "pipe burst flooded cellar ceiling damp boiler leak carpet".split(),
    "fire": "smoke flames kitchen candle charred alarm brigade soot".split(),
    "theft": "stolen bicycle broken lock burglar wallet police missing".split(),
    "storm": "roof tiles wind tree hail gutter blown fence".split(),
    "car": "bumper parked scratched junction brake mirror tow garage".split(),
}
COMMON = "dear sir madam i write about the damage of last week please find enclosed photographs and invoice yours truly we were away when it happened insured sum policy number".split()


def letter(rng, desk):
    words = []
    for _ in range(rng.randint(12, 28)):
        if rng.random() < 0.16:
            words.append(rng.choice(DESKS[desk]))
        elif rng.random() < 0.08:
            words.append(rng.choice(DESKS[rng.choice(list(DESKS))]))
        else:
            words.append(rng.choice(COMMON))
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    rng = random.Random(1666)
    with open(options.out, "w") as f:
        for _ in range(options.count):
            desk = rng.choice(list(DESKS))
            f.write(json.dumps({"text": letter(rng, desk), "desk": desk}) + "\n")
    print(options.count, "letters for", len(DESKS), "desks")


if __name__ == "__main__":
    main()
