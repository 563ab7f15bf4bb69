#!/usr/bin/env bash
set -e
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=warning
python -m objects.catalogue --out catalogue --records 1200
python classify.py --catalogue catalogue --epochs 2 --length 24
python -c "import json; print(json.load(open('result.json')))"
