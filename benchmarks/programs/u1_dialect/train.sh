#!/usr/bin/env bash
set -e
python -m speech.collect --out corpus --seed 5
python -u fit.py --corpus corpus --epochs 6 --batch 24 --rare 12
