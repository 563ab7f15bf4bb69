#!/bin/sh
set -e
export OMP_NUM_THREADS=1
test -f takes/index.json || python -m strings.takes --out takes --count 640
python train.py --takes takes --count 640 --window 0.4 1.0 --threads 2
