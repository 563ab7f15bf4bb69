#!/bin/bash
# one restart allowed, then none; the launcher's own messages carry times and process numbers, so they are counted only
python -m torch.distributed.run --standalone --nproc-per-node 1 --max-restarts 1 elastic.py 2> launcher.txt
echo "launcher ended with $?"; grep -c 'exitcode: 13' launcher.txt
rm last.pt
python -m torch.distributed.run --standalone --nproc-per-node 1 --max-restarts 0 elastic.py 2> launcher.txt
echo "launcher ended with $?"; grep -A6 'Root Cause' launcher.txt | grep -E 'rank|exitcode' | sed 's/(pid: [0-9]*)//'
rm launcher.txt
