"""Questions and whether they ask the same."""
import argparse
import csv
import os
import random


def question(rng, topic):
    return [topic * 8 + rng.randrange(8) for _ in range(rng.randint(4, 9))]


def pair(rng):
    topic = rng.randrange(6)
    same = rng.random() < 0.5
    left = question(rng, topic)
    if same and rng.random() < 0.02:
        right = list(left)
    else:
        right = question(rng, topic if same else (topic + rng.randint(1, 5)) % 6)
    return left, right, int(same)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rng = random.Random(args.seed)
    for part, count in (("train", 800), ("dev", 160)):
        with open(os.path.join(args.out, f"{part}.csv"), "w", newline="") as out:
            writer = csv.writer(out)
            for n in range(count):
                left, right, same = pair(rng)
                if n % 190 == 120:
                    left = []
                writer.writerow([" ".join(map(str, left)), " ".join(map(str, right)), same])


if __name__ == "__main__":
    main()
