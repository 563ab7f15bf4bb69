#!/bin/sh
# pretraining of the small encoder, CPU is enough
set -e
python -m moco.cli fit --samples 1640 --batch-size 64 --queue 512 --epochs 3
