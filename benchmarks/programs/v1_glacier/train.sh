#!/bin/bash
set -e
python -m ice.scenes --out scenes --tiles 2400
python -u train.py --scenes scenes --epochs 8 --batch 24 --out model
python -m ice.melt --weights model/best.pt --scenes scenes
