"""Recordings of gestures: marker positions and what was meant."""
import argparse
import os

import numpy as np

p = argparse.ArgumentParser()
p.add_argument("folder")
p.add_argument("--people", type=int)
a = p.parse_args()
os.makedirs(a.folder, exist_ok=True)
rng = np.random.default_rng(6)
for person in range(a.people):
    takes = {}
    for take in range(40):
        kind = take % 5
        t = np.linspace(0, 1, 32)[:, None]
        markers = np.sin((kind + 1) * np.pi * t + np.arange(9)) + rng.normal(0, 0.3, (32, 9))
        if person == 17 and take in (12, 29):
            markers = np.delete(markers, 6, axis=1)  # marker fell off
        if person == 4 and take == 3:
            markers[5:8, 2] = np.nan
        takes[f"{take:02d}_{kind}"] = markers.astype("f4")
    np.savez(os.path.join(a.folder, f"person{person:02d}.npz"), **takes)
