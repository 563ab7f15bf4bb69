#!/bin/sh
set -e
python -m shop.generate orders.jsonl
python fit.py
