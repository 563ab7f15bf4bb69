#!/usr/bin/env bash
# Two processes on the depot's own machine; the curves go to the W&B server at headquarters: relay here, tunnel on 29816.
set -e
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
export WANDB_BASE_URL=http://127.0.0.1:29817 WANDB_API_KEY=local-0123456789abcdef0123456789abcdef01234567
export WANDB_INIT_TIMEOUT=1800 WANDB_SILENT=true WANDB_MODE=offline WANDB_ERROR_REPORTING=false
python -m sorter.relay --listen 29817 --to 127.0.0.1:29816 > relay.log 2>&1 &
relay=$!
trap 'kill $relay 2>/dev/null || true' EXIT
python -m sorter.belt --days 12 --out belt.pt
torchrun --standalone --nproc-per-node 2 fit.py --belt belt.pt --epochs 5 --project parcels
python -m sorter.audit --belt belt.pt --weights trays.pt
