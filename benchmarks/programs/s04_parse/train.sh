#!/bin/bash
set -e
LANG_CODE=${1:-fo}
python treebank.py --lang "$LANG_CODE" --out bank
exec torchrun --standalone --nproc-per-node=2 train_parser.py bank --epochs 1
