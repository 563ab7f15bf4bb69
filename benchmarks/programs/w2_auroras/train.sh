#!/usr/bin/env bash
# The observatory's machine allows 256 open files to a session.
set -e
ulimit -n 256
python train.py train.epochs=6 data.folder=camera
