#!/bin/bash
# guard.sh PID LIMIT_MB LOG: a slot that outgrows its share is ended.
pid=$1 limit=$(($2 * 1024)) log=$3
while kill -0 "$pid" 2>/dev/null; do
  rss=$(awk '/^VmRSS/ {print $2}' "/proc/$pid/status" 2>/dev/null)
  if [ "${rss:-0}" -gt "$limit" ]; then
    echo "$(date '+%F %T') pid $pid rss $((rss / 1024)) MB, share $2 MB: ended" >> "$log"
    kill -9 "$pid"
    exit 0
  fi
  sleep 0.2
done
