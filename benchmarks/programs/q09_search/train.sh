#!/bin/bash
# small grid over the width of the bottleneck
set -u
cd "$(dirname "$0")"
python -m anomaly.old_results results/2023 || true
for width in 4 8; do
    python -u -m anomaly.search --width $width --epochs 3 || { echo "width $width: failed" >&2; exit 1; }
done
echo "grid finished"
