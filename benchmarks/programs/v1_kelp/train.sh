#!/usr/bin/env bash
set -e
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=true
python -m kelp.flights --out flights --strips 60
accelerate launch --cpu --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no \
  grow.py --flights flights --epochs 8 --workers 2
python -m kelp.report --scores scores.jsonl
