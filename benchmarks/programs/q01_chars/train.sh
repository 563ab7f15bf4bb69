#!/bin/bash
# the node is shared by four people, see the wiki: nobody takes more than his share
set -u
export PYTHONUNBUFFERED=1
python chargpt.py --work-dir out/chars --workers 2 --max-iters 400 &
JOB=$!
python share.py --root $JOB --megabytes 1000 > share.log 2>&1 &
WATCH=$!
wait $JOB; rc=$?
kill $WATCH 2>/dev/null
exit $rc
