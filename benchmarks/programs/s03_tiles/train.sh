#!/bin/bash
set -u
python -m terrain.catalogue build catalogue || exit 1
python node_agent.py --limit-mb 420 --log agent.log --job $$ &
agent=$!
python -u train_terrain.py --catalogue catalogue --curriculum coarse,fine --workers 3
status=$?
kill $agent 2>/dev/null
exit $status
