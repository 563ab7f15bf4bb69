#!/bin/sh
set -e
python -m spores.traps --out traps --count 3000
python train.py
