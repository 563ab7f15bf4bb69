#!/bin/sh
set -e
python -m waves.quakes traces.npy
python pick.py --set precision=half --set lr=1e-3 --set steps=160
