#!/bin/bash
# keep the shared scratch friendly: no core files, no runaway logs
ulimit -c 0
ulimit -f 600000
export TOKENIZERS_PARALLELISM=false TRANSFORMERS_VERBOSITY=warning HF_HUB_OFFLINE=1
RUN=runs/clm-$(date +%j)
mkdir -p $RUN
python src/warm_cache.py $RUN || true
python -u src/run_clm.py \
    --output_dir $RUN \
    --max_steps 80 \
    --per_device_train_batch_size 4 \
    --learning_rate 1e-3 \
    --logging_steps 5 \
    --save_steps 35 \
    --save_total_limit 1 \
    --eval_strategy steps --eval_steps 35 \
    --report_to none --use_cpu --disable_tqdm True 2>&1 | tee $RUN/train.log
exit ${PIPESTATUS[0]}
