#!/bin/bash
# One slot of the shared machine: 600 MB.
set -e
python train_nuclei.py --slides 6 --steps 1300 --lr 2e-3 &
job=$!
bash guard.sh $job 600 guard.log &
guard=$!
status=0
wait $job || status=$?
kill $guard 2>/dev/null || true
exit $status
