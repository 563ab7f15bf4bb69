#!/bin/bash
set -u
PORT=$(python -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
python -m lab.stand_in --port "$PORT" > lab_server.log 2>&1 &
SERVER=$!
trap 'kill $SERVER 2>/dev/null' EXIT
export LAB_URL=http://127.0.0.1:$PORT
python -u train_flow.py --steps 240 --workers 2 --artifact-every 80
