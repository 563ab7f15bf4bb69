"""Titles of dishes and what goes into them."""
import argparse
import csv
import random

BASES = {
    "soup": ["stock", "onion", "celery", "cream"],
    "curry": ["ghee", "turmeric", "ginger", "chilli"],
    "pie": ["flour", "butter", "lard", "egg"],
    "salad": ["oil", "vinegar", "lettuce", "mustard"],
    "stew": ["beef", "stock", "carrot", "thyme"],
    "cake": ["flour", "sugar", "egg", "butter"],
}
MAINS = "leek potato lentil apple plum beetroot walnut mushroom cod lamb pumpkin barley spinach rhubarb chestnut fennel".split()
MANNERS = "quick slow rustic spiced smoked cold sunday grandmother's".split()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    rng = random.Random(77)
    with open(options.out, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["title", "ingredients"])
        for _ in range(options.count):
            base, mains = rng.choice(list(BASES)), rng.sample(MAINS, rng.randint(1, 3))
            parts = rng.sample(BASES[base], 3) + mains + rng.choices(["salt", "pepper", "water", "parsley"], k=rng.randint(1, 12))
            rng.shuffle(parts)
            writer.writerow([f"{rng.choice(MANNERS)} {' and '.join(mains)} {base}", " ".join(parts)])
    print(options.count, "recipes")


if __name__ == "__main__":
    main()
