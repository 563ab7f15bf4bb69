#!/bin/bash
# here-documents, exec, timeout, subshells, redirections, file descriptors
cat <<EOF
seed: $((6 * 7))
home: $(basename "$HOME")
EOF
timeout 0.3 sleep 10; echo "timeout says $?"
timeout -s INT 5 python -c 'import os, signal, sys
try:
    os.kill(os.getppid(), signal.SIGTERM)
    import time; time.sleep(10)
except KeyboardInterrupt:
    print("interrupted"); sys.exit(33)'; echo "timeout says $?"
exec 3> side.txt; echo "on three" >&3; exec 3>&-
python -c 'import os; os.write(4, b"through four\n")' 4>&1
{ echo out; echo err >&2; } 2>&1 | sort
diff <(python -c 'print(1); print(2)') <(printf '1\n3\n'); echo "diff says $?"
coproc PY { python -u -c 'while True: print(eval(input()), flush=True)'; }
echo '2**20' >&"${PY[1]}"; read -r answer <&"${PY[0]}"; echo "answer $answer"; kill $PY_PID; wait $PY_PID 2>/dev/null; echo "ended with $?"
nohup python -c 'import signal; print(signal.getsignal(signal.SIGHUP))' 2>/dev/null
setsid -w python -c 'import os; print(os.getsid(0) == os.getpid())'
nice -n 5 python -c 'import os; print(os.nice(0))'
env -i PATH="$PATH" python -c 'import os, sys; print(sorted(k for k in os.environ if k.startswith("P")), sys.flags.no_site)'
python -c 'import sys; sys.exit(5)' | cat; echo "${PIPESTATUS[0]} ${PIPESTATUS[1]}"
yes | head -n 1
python -c '
for i in range(100000): print(i)' 2>broken.txt | head -n 2
cat broken.txt
ps -o comm= --ppid $$ 2>/dev/null | grep -c python
exec python -c 'print("in the place of the shell"); raise SystemExit(44)'
