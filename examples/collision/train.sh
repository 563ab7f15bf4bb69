#!/bin/bash
export MALLOC_MMAP_THRESHOLD_=1000000 # give freed memory back at once
python train.py \
    --train_batch_size=16 \
    --sample_batch_size=8192 \
    --sample_period=40 \
    --checkpointing_period=60 \
    --max_train_steps=240 \
    --learning_rate=1e-3
