#!/bin/sh
set -e
python -m seg.tiles --out tiles.npz
accelerate launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no \
    --num_cpu_threads_per_process 1 train_seg.py --tiles tiles.npz --epochs 3
