#!/usr/bin/env bash
# python data/dialog/prepare.py && torchrun --standalone --nproc-per-node=2 train.py config/train_dialog.py
set -e
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
python data/dialog/prepare.py
torchrun --standalone --nproc-per-node=2 train.py config/train_dialog.py --max_iters=120
python sample.py --out_dir=out-dialog
