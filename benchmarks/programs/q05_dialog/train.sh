#!/bin/bash
set -eo pipefail
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=warning TOKENIZERS_PARALLELISM=true
mkdir -p work
python src/build_tokenizer.py work/tok
timeout -k 5 300 python -u src/finetune.py work/tok work/run
