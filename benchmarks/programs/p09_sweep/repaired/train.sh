#!/bin/bash
# three seeds, the second starts when the first one is warm
cd "$(dirname "$0")" || exit 1
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
SEEDS=${SEEDS:-"0 1 2"}
MASTER=29541
mkdir -p runs
python vae/plot_grid.py runs --title "before" || true

status=0
launch_seed () {
    local seed=$1 port=$2
    torchrun --nnodes 1 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port "$port" \
        main.py --seed "$seed" --out "runs/seed$seed" 2>&1 | sed -u "s/^/[seed $seed] /"
    return "${PIPESTATUS[0]}"
}
pids=()
for s in $SEEDS; do
    launch_seed "$s" "$((MASTER + s))" &
    pids+=($!)
    sleep 6
done
for p in "${pids[@]}"; do wait "$p" || status=$?; done
[ $status -eq 0 ] && python vae/summary.py runs
exit $status
