#!/usr/bin/env bash
set -e
python -m lichen.survey --root quadrats --sites 8 --plates 40
python -u fit.py --root quadrats --holdout S03,S06 --max-epochs 6
