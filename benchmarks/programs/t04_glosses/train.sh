#!/bin/bash
set -e
python -m lexis.make lexicon.tsv 300000
touch lexicon.lock
python -u gloss.py --lexicon lexicon.tsv --epochs 2 --workers 2
