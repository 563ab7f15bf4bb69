#!/bin/sh
# the same program for several seeds and rates, one of which is known not to work
mkdir -p runs
failed=0
for seed in 1 2 3; do
  for lr in 0.1 0.01; do
    out=runs/seed$seed-lr$lr
    if python seeds_train.py --seed $seed --lr $lr --out $out >$out.log 2>&1; then
      tail -n 1 $out.log
    else
      echo "seed $seed lr $lr failed with $?"
      failed=$((failed + 1))
    fi
  done
done
echo "$failed failed" >&2
cat runs/*.log
[ $failed -eq 1 ]
