#!/usr/bin/env bash
set -euo pipefail
export PYTHONWARNINGS=default
RUN=runs/$(printf 'load_%02d' 4)
python -m power.meters --weeks 60 meters.csv
python forecast.py --csv meters.csv --run "$RUN" --epochs 4
python export.py --run "$RUN" --to load_model.ts
