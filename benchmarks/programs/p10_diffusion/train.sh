#!/bin/bash
set -e
# the queue gives short slots: train in two pieces
python -u -m ddpm.train --steps 120 --ckpt ckpt/last.pt
echo "slot 1 over, going on"
nice -n 5 python -u -m ddpm.train --steps 200 --ckpt ckpt/last.pt --resume
python -u -m ddpm.sample --ckpt ckpt/last.pt
