#!/bin/sh
set -e
python -m flora.records --out years --count 6000
python -u fit.py --years years --train 2019 --train 2020 --train 2021 --val 2022 --test 2023
