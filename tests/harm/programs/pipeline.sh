#!/bin/bash
# prepare, train, evaluate; every stage is a program of its own
set -euo pipefail
[ -d data ] || { mkdir data; python - <<'PY'
import random
random.seed(1)
with open("data/train.csv", "w") as f:
    for i in range(100):
        f.write(f"{i},{random.random():.6f}\n")
PY
}
wc -l < data/train.csv
python -c "
import csv, json
rows = [(float(a), float(b)) for a, b in csv.reader(open('data/train.csv'))]
w = 0.0
for epoch in range(5):
    for x, y in rows:
        w -= 1e-6 * 2 * (w * x - y) * x
    print(f'epoch {epoch} w {w.hex()}')
json.dump({'w': w}, open('model.json', 'w'))
" | tee train.log | tail -n 2
python -c "import json; print(round(json.load(open('model.json'))['w'], 9))" > result.txt
sort -t, -k2 data/train.csv | head -n 3 | cut -d, -f1 | paste -sd' '
grep -c epoch train.log || true
false | cat || echo "pipefail seen"
(cd data && ls)
