#!/bin/bash
set -e
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
TR="torchrun --standalone --nproc-per-node 2"
timeout 120 nice -n 4 $TR warm.py --stage probe --steps 60 --save w/last.pt
timeout 120 nice -n 4 $TR warm.py --stage full --steps 120 --resume w/last.pt --save w/last.pt
