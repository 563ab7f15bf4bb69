#!/bin/bash
set -e
python tools/make_rings.py data/rings.npz
python tools/launch.py configs/ring_swa.yaml \
    --opt train.epochs=6 \
    --opt swa.lr=0.0005 \
    --opt model.width=40
