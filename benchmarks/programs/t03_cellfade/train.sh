#!/bin/bash
set -e
python3 cycles.py cells.pt
torchrun --standalone --nproc_per_node=2 fade.py --cells cells.pt --patience 2 --max_epochs 12
