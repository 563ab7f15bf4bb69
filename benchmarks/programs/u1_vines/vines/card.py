import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("--run")
run = parser.parse_args().run
with open(os.path.join(run, "scores.json")) as f:
    scores = json.load(f)
print(f"{len(scores)} epochs, last: {scores[-1]}")
