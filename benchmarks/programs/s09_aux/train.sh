#!/bin/bash
set -e
[ -f days.jsonl ] || python -m rain.records days.jsonl
torchrun --standalone --nproc-per-node 2 -m rain.train --records days.jsonl --cfg rain.toml
python -m rain.forecast rain.pt
