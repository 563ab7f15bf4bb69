import json
import math
import random
import sys

rng = random.Random(5)
with open(sys.argv[1], "w") as out:
    for day in range(1500):
        season = math.sin(day / 58)
        pressure = [1013 + 8 * season * math.cos(h / 4) + rng.gauss(0, 1.5) for h in range(24)]
        rain = max(0.0, (1010 - min(pressure)) * 0.6 + rng.gauss(0, 0.3))
        row = {"day": day, "pressure": pressure, "rain": rain, "storm": int(rain > 3.5)}
        line = json.dumps(row)
        out.write((line[:40] if day == 777 else line) + "\n")
