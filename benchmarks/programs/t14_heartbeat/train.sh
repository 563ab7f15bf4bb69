#!/usr/bin/env bash
set -e
python pretrain.py --epochs 6 --ckpt ckpt
python probe.py --weights ckpt/encoder.ckpt --labels 96 --steps 250
