#!/bin/bash
set -e
export PYTHONWARNINGS=default::UserWarning
python gen_sessions.py sessions.npz
python -u next_click.py --data sessions.npz --batch-size 64 --epochs 4
python rank_items.py
