import json
import random
import sys

KINDS = 8
ITEMS = 120


def customer(rng, number):
    taste = [rng.random() ** 3 for _ in range(KINDS)]
    orders = []
    for _ in range(rng.randint(6, 14)):
        kind = rng.choices(range(KINDS), taste)[0]
        item = kind * (ITEMS // KINDS) + min(int(rng.expovariate(0.4)), ITEMS // KINDS - 1)
        price = round(rng.lognormvariate(2, 0.6), 2)
        orders.append({"item": item, "price": None if rng.random() < 0.03 else price, "voucher": rng.random() < 0.06})
    if number % 400 == 211:
        for order in orders[:-1]:
            order["voucher"] = True
    return {"customer": number, "orders": orders}


def main(path):
    rng = random.Random(31)
    with open(path, "w") as out:
        for n in range(1500):
            out.write(json.dumps(customer(rng, n)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
