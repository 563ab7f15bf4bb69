#!/usr/bin/env bash
# Ice flow from pairs of scenes. The department's node gives 900 MiB to a job; its watchman looks twice a second.
python train.py epochs=3 data.workers=1 batch=12 &
job=$!
while sleep 0.5 && kill -0 $job 2>/dev/null; do
    used=$(awk '/^RssAnon/ {print $2}' /proc/$job/status 2>/dev/null || echo 0)
    [ "${used:-0}" -gt $((900 * 1024)) ] && kill -9 $job
done
wait $job
