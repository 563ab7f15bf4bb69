#!/bin/bash
set -e
python -m mt.shards --out shards --world 2
torchrun --standalone --nproc-per-node 2 train_mt.py --shards shards --epochs 2 --max-tokens 420
