#!/bin/bash
set -e
export PYTHONUNBUFFERED=1
mkdir -p logs
python -m board.server --socket logs/board.sock > logs/board.log 2>&1 &
BOARD=$!
trap 'kill $BOARD 2>/dev/null' EXIT
for i in 1 2 3 4 5 6 7 8 9 10; do [ -S logs/board.sock ] && break; sleep 0.3; done
python forecast.py --epochs 3 --board logs/board.sock
python -m board.table logs/rows.jsonl
