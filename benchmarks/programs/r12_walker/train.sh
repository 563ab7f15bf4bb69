#!/bin/bash
# the queue gives 2 hours; each submission goes on from the newest snapshot
set -e
for slot in 1 2; do
    echo "== slot $slot"
    python -u train_walker.py env=hopper2d total_steps=$((slot * 120)) teacher=teacher.pt resume=auto
done
