#!/bin/bash
set -e
ulimit -v 1600000   # kB; the login node gives no more to one process
python -m match.views --places 400 --out views.npy
python embed.py --views views.npy --steps 220 --bank 1024
python retrieve.py --views views.npy --weights embed.pt --k 5
