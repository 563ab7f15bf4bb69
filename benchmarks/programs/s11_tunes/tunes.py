import random

rng = random.Random(1)
SCALE = "CDEFGABc"
for _ in range(300):
    note, bars = 3, []
    for _ in range(4):
        bar = ""
        for _ in range(4):
            note = min(7, max(0, note + rng.choice([-2, -1, 1, 2])))
            bar += SCALE[note]
        bars.append(bar)
    print("|".join(bars))
