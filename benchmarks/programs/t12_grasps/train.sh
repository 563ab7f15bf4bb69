#!/bin/bash
set -e
export GLOO_SOCKET_IFNAME=lo
python simulate.py grasps.npy 1600
torchrun --standalone --nproc-per-node=2 main.py conf/base.yaml conf/wide.yaml
