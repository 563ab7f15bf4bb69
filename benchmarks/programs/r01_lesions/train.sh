#!/bin/bash
# small partition: h_vmem=1600M, the queue's prolog does the same
set -eu
ulimit -v 1600000
python make_masks.py --out masks --patients 30
python fit.py --cfg cfg/small.yaml
