#!/bin/sh
set -e
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=true HF_HUB_OFFLINE=1
python -u fit.py regions.yaml
