#!/bin/bash
# streams that are not there
python -c 'import sys, os; print(sys.stdout); os.write(2, str(sys.stdout).encode() + b"\n"); open("a.txt", "w").write("a")' >&-
echo "$?"
python -c 'import sys; print(sys.stderr); sys.exit("lost")' 2>&-
echo "$?"
python -c 'import sys; print(sys.stdin)' <&-
echo "$?"
python -c 'import os; fds = sorted(int(f) for f in os.listdir("/proc/self/fd") if int(f) < 100); open("fds.txt", "w").write(repr(fds))' <&- >&- 2>&-
echo "$?"; cat fds.txt; echo
python -c 'print("lost")' >/dev/full
echo "$?"
python -c 'import os; f = open("first.txt", "w"); open("number.txt", "w").write(str(f.fileno())); os.system("echo in a shell")' >&- 2>/dev/null
echo "$?"; cat number.txt; echo
