#!/bin/bash
set -u
days=64
[ -d days ] || python -m desk.simulate --out days --days $days || exit 1
exec python -u fit_trades.py --days days --passes 3 --depth 2 --log fit.log
