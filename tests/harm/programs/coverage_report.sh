#!/bin/bash
set -u
cat > covered.py <<'PY'
import os, sys, multiprocessing, threading
def used(x):
    if x > 1:
        return x
    return -x
def unused():
    return 1
def in_thread():
    used(0)
threading.Thread(target=in_thread).start()
p = multiprocessing.get_context("fork").Process(target=used, args=(5,)); p.start(); p.join()
print(used(2))
PY
python -m coverage run --branch covered.py
python -m coverage report -m
python -m coverage run --source . --data-file other covered.py && python -m coverage report --data-file other
python -m coverage json -q -o - | python -c 'import json, sys; print(sorted(json.load(sys.stdin)["files"]))'
rm -f .coverage other
