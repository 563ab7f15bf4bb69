#!/bin/bash
# Two allocations; the second goes on where the first ended.
set -e
python compose.py settings.yaml --until 600
python compose.py settings.yaml --until 1000 --resume out/tunes.ckpt
