#!/bin/bash
# Two ranks, a config in YAML, and two mistakes that would cost the night.
torchrun --nproc-per-node 2 train.py \
    --config config.yaml \   # was small.yaml
    --output runs/first
