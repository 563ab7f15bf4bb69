#!/bin/bash
# one CIFAR-sized run, the box is shared: stay inside our slice
set -eu
cd "$(dirname "$0")"
ulimit -v 1750000
export PYTHONUNBUFFERED=1

python make_split.py --out data/shapes.npz --n 2048
python train.py -c configs/rn_tiny.yaml --output output/rn_tiny
python validate.py --checkpoint output/rn_tiny/last.pth --data data/shapes.npz
