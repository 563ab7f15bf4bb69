import argparse, json, random
p = argparse.ArgumentParser()
p.add_argument("--seed", type=int); p.add_argument("--lr", type=float); p.add_argument("--out")
a = p.parse_args()
random.seed(a.seed)
if a.seed == 2 and a.lr > 0.05:
    raise FloatingPointError("diverged")
w = random.random()
for i in range(50):
    w -= a.lr * 2 * (w - 0.5)
print("final", abs(w - 0.5).hex())
json.dump(vars(a), open(a.out + ".json", "w"))
