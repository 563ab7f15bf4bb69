#!/bin/bash
cleanup() { local code=$?; echo "cleaning up after $code"; rm -f lock ready saved go; }
trap cleanup EXIT
trap 'echo "got TERM"; touch go; wait $child; echo "child ended with $?"; exit 15' TERM
trap 'echo "got USR1" >&2' USR1
touch lock
python -c '
import os, signal, sys, time
def save(*_):
    print("saved", flush=True)
    open("saved", "w").close()
    while not os.path.exists("go"): time.sleep(0.01)
    sys.exit(21)
signal.signal(signal.SIGTERM, save)
open("ready", "w").close()
time.sleep(30)' &
child=$!
while [ ! -e ready ]; do sleep 0.02; done
kill -USR1 $$
( kill -TERM $child; while [ ! -e saved ]; do sleep 0.02; done; kill -TERM $$ ) &
wait $child
echo "not reached"
