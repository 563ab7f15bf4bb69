#!/bin/sh
set -e
python pretrain.py
python finetune.py finetune.epochs=30
