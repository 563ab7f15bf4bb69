#!/usr/bin/env bash
set -e
python -m seam.bench --out seams.npz --count 700
python -u fit.py --seams seams.npz --epochs 16
python -m seam.export --weights logs/last.ckpt --seams seams.npz --out plan.json
