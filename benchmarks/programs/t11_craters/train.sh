#!/bin/bash
set -e
python -m moon.scenes --out scenes.h5 --train 480 --val 96
torchrun --standalone --nproc-per-node 2 detect.py --config detect.yaml
