#!/usr/bin/env bash
# Tide-gauge forecaster. The login node lets nobody have more than 2.5 GiB of address space.
set -euo pipefail
ulimit -v $((5 * 512 * 1024))
python -m gauge.synth --config forecast.yaml
python -u train.py --config forecast.yaml
python evaluate.py --config forecast.yaml --weights runs/best.pt
