#!/usr/bin/env bash
set -eo pipefail
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
store=$PWD/store
mkdir -p "$store"
python -m orbit.ephemeris --out "$store/tracks.pt" --objects 1500
bash orbit/room.sh "$store"
torchrun --standalone --nproc_per_node=2 pretrain.py --tracks "$store/tracks.pt" --store "$store/ckpt" --steps 150 --every 50
bash orbit/room.sh "$store"
torchrun --standalone --nproc_per_node=2 finetune.py --tracks "$store/tracks.pt" --store "$store/ckpt" --steps 100
