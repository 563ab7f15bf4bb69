import random
import sys

ONSET, VOWEL = "p t k b d g m n s r l v".split(), "a e i o u ai au".split()


def word(rng):
    return "".join(rng.choice(ONSET) + rng.choice(VOWEL) for _ in range(rng.randint(2, 4)))


def main(path, count):
    rng = random.Random(44)
    with open(path, "w") as out:
        for n in range(int(count)):
            w = word(rng)
            out.write(f"{w}\t{'NVAX'[(len(w) + ord(w[-1])) % 4]};freq={rng.paretovariate(1.1):.2f}; senses = {rng.randint(1, 9)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
