#!/bin/bash
set -e
source desk/limits.sh
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
python -m desk.letters --out letters.jsonl --count 1000
python warm.py --letters letters.jsonl --out warm --steps 50
python sort_claims.py --letters letters.jsonl --start warm \
    --output_dir sorted --num_train_epochs 3 --per_device_train_batch_size 32 --learning_rate 1e-3 \
    --eval_strategy steps --eval_steps 25 --save_strategy steps --save_steps 25 --save_total_limit 2 \
    --load_best_model_at_end true --metric_for_best_model accuracy --logging_steps 10 --report_to none --use_cpu true --disable_tqdm true
