#!/usr/bin/env bash
set -e
# FREEZE=true for the runs that start from last year's weights
export FREEZE=${FREEZE:-false} HYDRA_FULL_ERROR=1
here=$(pwd)
python -m vines.leaves --out "$here/leaves.npz" --per-kind 260
python -u train.py data.path="$here/leaves.npz" hydra.run.dir=outputs/first
python -m vines.card --run outputs/first
