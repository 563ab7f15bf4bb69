#!/bin/bash
set -e
python -m micro.grow --out wells --count 420
python -u count_cells.py --wells wells --config micro/counting.toml
python -m micro.summary --previews previews
