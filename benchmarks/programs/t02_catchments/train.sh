#!/bin/bash
set -euo pipefail
python make_basins.py --out basins.npz --years 3
torchrun --standalone --nproc-per-node 2 train.py conf.yaml
