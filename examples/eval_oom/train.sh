#!/bin/bash
python train.py \
    --train_batch_size=64 \
    --sample_batch_size=4096 \
    --num_sample_batches=2 \
    --sample_period=50 \
    --checkpointing_period=200 \
    --learning_rate=1e-4 \
    --output_dir=out
