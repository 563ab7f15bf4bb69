#!/bin/bash
set -eu
OUT=out-tunes
mkdir -p $OUT
python tunes.py > $OUT/tunes.abc
echo "-- does the sampler work at all?"
python sample.py --out $OUT --bars 2
python train.py --out $OUT --data $OUT/tunes.abc --n_embd 40 --iters 150
echo "-- sampling"
python sample.py --out $OUT --bars 4 --n_embd 40
