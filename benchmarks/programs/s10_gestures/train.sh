#!/bin/bash
set -e
python capture.py rec --people 20
python -u main.py --rec rec --out exp/g1 --epochs 4 || { echo "training ended with $?, see exp/g1"; exit 1; }
