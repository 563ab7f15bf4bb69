#!/bin/bash
set -e
export HDF5_USE_FILE_LOCKING=FALSE   # the cluster's lustre has no flock
ulimit -f 60000                      # like the student quota
python 00_patches.py --out patches.h5 --slides 5
python 01_encode.py --patches patches.h5 --out features.h5 --views 6
python 02_probe.py --features features.h5
