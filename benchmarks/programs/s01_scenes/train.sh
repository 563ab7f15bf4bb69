#!/bin/bash
set -eo pipefail
ulimit -n 128
export PYTHONUNBUFFERED=1
python -m depthnet.render scenes 150
python -m depthnet.fit --scenes scenes --rounds 3 2>&1 | tee fit.out
python -m depthnet.check
