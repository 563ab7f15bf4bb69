#!/usr/bin/env bash
set -e
export TOKENIZERS_PARALLELISM=true HF_HUB_OFFLINE=1
python -m cook.kitchen --out recipes.csv --count 1000
python -u pair.py --recipes recipes.csv --model-config cook/pair.json \
    --output_dir out --per_device_train_batch_size 16 --per_device_eval_batch_size 16 \
    --num_train_epochs 4 --learning_rate 2e-3 --logging_steps 10 --eval_strategy epoch \
    --save_strategy no --report_to none --use_cpu true --seed 6 --warmup_steps 10
