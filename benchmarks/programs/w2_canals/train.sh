#!/bin/sh
# Two processes on the water board's machine.
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
exec torchrun --standalone --nproc-per-node=2 run.py epochs=4
