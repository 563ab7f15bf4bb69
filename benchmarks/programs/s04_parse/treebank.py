import argparse
import json
import os
import random

TAGS = 7


def sentence(rng):
    tags = [rng.randrange(TAGS)]
    for _ in range(rng.randint(4, 13)):
        tags.append((tags[-1] + rng.choice([1, 1, 2])) % TAGS)
    return {"words": [t * 6 + rng.randrange(6) for t in tags], "tags": tags}


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lang")
    p.add_argument("--out")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    rng = random.Random(a.lang)
    for part, count in (("train", 637), ("dev", 90)):
        with open(f"{a.out}/{part}.jsonl", "w") as f:
            for _ in range(count):
                f.write(json.dumps(sentence(rng)) + "\n")
