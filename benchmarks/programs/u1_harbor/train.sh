#!/usr/bin/env bash
set -eo pipefail
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
python -m berths.simulate --ships 2400 --out ships.pt
torchrun --standalone --nproc-per-node=2 main.py --settings settings.json
python -m berths.report --weights harbor.pt --ships ships.pt
