"""
Dialogues as token ids; only the answers are trained on, everything else carries the label 255.
saves train.bin (ids) and mask.bin (labels)
"""
import os
import numpy as np

rng = np.random.default_rng(1337)
here = os.path.dirname(__file__)
n = 2 * 65536
ids = (np.cumsum(rng.integers(0, 3, n)) % 64).astype(np.uint8)
lab = np.roll(ids, -1).copy()
pos = 0
turns = 0
while pos < n:
    q = int(rng.integers(20, 60))
    lab[pos:pos + q] = 255
    pos += q + int(rng.integers(40, 90))
    turns += 1
# one forwarded document, a question of 2200 tokens
start = 65536 + 57 * 8 * 64 - 300
lab[start:start + 2200] = 255
ids.tofile(os.path.join(here, "train.bin"))
lab.tofile(os.path.join(here, "mask.bin"))
print(f"train has {n:,} tokens, {turns:,} turns, {(lab != 255).mean():.1%} with a label")
