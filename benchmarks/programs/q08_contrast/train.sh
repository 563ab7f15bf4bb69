#!/usr/bin/env bash
set -e
# no network on the compute nodes
export WANDB_MODE=offline WANDB_SILENT=true WANDB_DIR=$PWD/wb
mkdir -p "$WANDB_DIR"
for tau in 0.5 0.1; do
    python -u -m clr.main --tau $tau --steps 60 --tag sweep3
done
