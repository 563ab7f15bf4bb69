import argparse
import json

parser = argparse.ArgumentParser()
parser.add_argument("--scores")
with open(parser.parse_args().scores) as f:
    rows = [json.loads(line) for line in f]
held = [row["held"] for row in rows if "held" in row]
print(f"{len(rows)} lines, held-out error from {held[0]:.3f} to {held[-1]:.3f}")
