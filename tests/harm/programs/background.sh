#!/usr/bin/env bash
# a server in the background, clients in a loop, jobs with wait
python -u - > server.log <<'PY' &
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind("server.sock"); s.listen()
os.rename("server.sock", "ready.sock")
while True:
    c, _ = s.accept()
    m = c.recv(100)
    if m == b"stop": print("stopped"); break
    print(m.decode()); c.send(m[::-1]); c.close()
os.unlink("ready.sock")
PY
server=$!
until [ -S ready.sock ]; do sleep 0.02; done
for word in alpha beta gamma; do
    python -c "
import socket, sys
c = socket.socket(socket.AF_UNIX); c.connect('ready.sock'); c.send(sys.argv[1].encode()); print(c.recv(100).decode())" $word
done
pids=()
for i in 1 2 3; do
    ( sleep 0.$i; exit $i ) &
    pids+=($!)
done
for p in "${pids[@]}"; do wait $p; echo "job ended with $?"; done
python -c "
import socket
c = socket.socket(socket.AF_UNIX); c.connect('ready.sock'); c.send(b'stop')"
wait $server; echo "server ended with $?"
jobs
cat server.log
