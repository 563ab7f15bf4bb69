#!/bin/sh
set -e
mkdir -p data out
python prepare.py data/train.jsonl 1500 11
python prepare.py data/val.jsonl 200 12
python -u run.py --config config.json --out out
