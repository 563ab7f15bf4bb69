#!/bin/bash
set -u
PORT=29731
python -m stream.board --port $PORT --serve 60 > board.log 2>&1 &
board=$!
trap 'kill $board 2>/dev/null' EXIT
python -m stream.clips --out clips.pt
python -u warm_start.py --clips clips.pt --out warm.pt --board 127.0.0.1:29740
torchrun --nnodes 1 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port $((PORT + 1)) \
    train_stream.py --clips clips.pt --init warm.pt --steps 120
