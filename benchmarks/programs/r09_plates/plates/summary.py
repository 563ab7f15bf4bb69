import glob
import sys

import torch

for path in glob.glob(f"{sys.argv[1]}/*.pt"):
    print(path, sum(v.numel() for v in torch.load(path).values()), "weights")
