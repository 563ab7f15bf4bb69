#!/bin/bash
rm -f collector.port
python -m telemetry.collector --port-file collector.port --db metrics.sqlite 2> collector.log &
collector=$!
trap 'kill $collector 2>/dev/null' EXIT
python polymer.py --epochs 12 --workers 4
