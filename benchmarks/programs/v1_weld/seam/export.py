"""The plan for the robot: the torch's direction at each place of each seam."""
import argparse
import json

import numpy as np
import torch

from seam.module import TorchPointer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights")
    parser.add_argument("--seams")
    parser.add_argument("--out")
    options = parser.parse_args()
    model = TorchPointer.load_from_checkpoint(options.weights, weights_only=False).eval()
    with np.load(options.seams) as f:
        profile = torch.from_numpy(f["profile"][-100:])
    with torch.no_grad():
        plan = model(profile).tolist()
    text = json.dumps({"seams": len(plan), "directions": plan}, allow_nan=False)
    with open(options.out, "w") as f:
        f.write(text)
    print(f"plan for {len(plan)} seams, {len(text) // 1024} KiB")


if __name__ == "__main__":
    main()
