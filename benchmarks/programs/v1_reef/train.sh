#!/usr/bin/env bash
set -e
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
mkdir -p work
python -m reef.transects --out work/transects.h5 --transects 40 --frames 24
torchrun --nnodes=1 --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=29655 segment.py \
  --data work/transects.h5 --epochs 6 --batch 6 --out work/reef.pt
python -m reef.cover --data work/transects.h5 --weights work/reef.pt
