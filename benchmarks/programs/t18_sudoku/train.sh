#!/bin/bash
set -e
export PYTHONUNBUFFERED=1
for slot in 1 2; do
    echo "== slot $slot"
    python train.py --run runs/grid4 --budget_steps 120
done
python train.py --run runs/grid4 --evaluate
