#!/bin/bash
# local stand-in for the queue: same limits, same signals
export PYTHONUNBUFFERED=1 JOB=771204 NODE=node17
cd "$(dirname "$0")"
python tools/qrun.py --time 00:00:14 --mem 4G -- nice -n 3 python -m asr.train --steps 150 --out exp/ctc
