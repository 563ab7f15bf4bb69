#!/bin/bash
set -eo pipefail
python -m lesions.phantom --n 1000 --out phantoms.npz
python train_cnn.py --epochs 4 --data phantoms.npz 2>&1 | tee train.log
python evaluate.py --data phantoms.npz --model model.pt 2>&1 | tee eval.log
echo "see report.json"
