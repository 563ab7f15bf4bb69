#!/usr/bin/env bash
set -e
export TRANSFORMERS_NO_ADVISORY_WARNINGS=1 HF_HUB_OFFLINE=1
python -m siam.pairs --out pairs --seed 3
python finetune_pairs.py settings.json
