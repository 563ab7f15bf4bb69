#!/bin/bash
set -eu
python -m voice.record --out clips --count 1200
python spot.py --clips clips --epochs 3 --scratch /nonexistent/scratch
