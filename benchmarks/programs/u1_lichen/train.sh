#!/usr/bin/env bash
set -e
python -m lichen.survey --root quadrats --sites 8 --plates 40
python -u fit.py --root quadrats --holdout S3,S6 --max-epochs 6
