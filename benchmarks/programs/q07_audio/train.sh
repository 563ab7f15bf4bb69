#!/bin/bash
set -e
python -u train_tagger.py train.epochs=4 train.workers=4 log.dir=book
python report.py book/book.tsv
