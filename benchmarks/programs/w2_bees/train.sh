#!/usr/bin/env bash
# The desk runs beside the training and is closed after it.
set -e
export DESK_PORT=29641 OMP_NUM_THREADS=1
python -m hive.desk --port $DESK_PORT --folder desk 2> desk.log &
desk=$!
trap 'kill $desk 2>/dev/null || true' EXIT
python -u fit.py --count 3000 --epochs 4 --batch 32
