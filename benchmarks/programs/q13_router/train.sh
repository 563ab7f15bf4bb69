#!/bin/bash
set -e
cd "$(dirname "$0")"
( python -m router.heartbeat --every 2 --file beat.txt ) &
BEAT=$!
trap "kill $BEAT 2>/dev/null || true" EXIT
timeout --signal=INT 300 python -u -m router.learn --updates 200 --temperature 0.6
