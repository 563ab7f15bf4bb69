#!/bin/bash
set -euo pipefail
mkdir -p work/logs
python -m plates.collect work/wells.parquet
python run_plates.py plates.toml
python -m plates.summary work
