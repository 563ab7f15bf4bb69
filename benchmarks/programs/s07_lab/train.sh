#!/bin/bash
set -e
for n in 1 2 3; do
    python -m kit.cli stages/$n.json
done
echo "all stages done"
