#!/usr/bin/env bash
set -e
python -m calls.synth --dir clips --count 900
python run.py --clips clips --epochs 5 --batch 30 --clip_grad 0.1
