#!/usr/bin/env bash
set -euo pipefail
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
RUN=${RUN:-runs/clm}
python -m domain.texts corpus
python pretrain.py --texts corpus/general.jsonl --output "$RUN" --epochs 2
python adapt.py --texts corpus/reviews.jsonl --output "$RUN" --epochs 2
python report.py "$RUN"
