#!/bin/bash
# what administrators allow
( ulimit -n 24; python -c '
import os
files = []
try:
    while True: files.append(open("/dev/null"))
except OSError as e: print(len(files) > 18, e)
del files
import subprocess; print(subprocess.run(["true"]).returncode)' )
( ulimit -v 600000; python -c '
try: x = bytearray(2 << 30)
except MemoryError: print("MemoryError")
import threading; t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()' )
( ulimit -f 8; python -c '
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try: open("large.bin", "wb").write(b"x" * 100000)
except OSError as e: print(e.errno)'; ls -l large.bin | awk "{print \$5}" )
( ulimit -t 1; python -c '
while True: pass'; echo "cpu limit: $?" ) 2>/dev/null
( ulimit -s 512; python -c 'print(sum(range(10)))' )
( ulimit -u 4000; python -c 'import os; p = os.fork() or os._exit(0); print(os.waitpid(p, 0)[1])' )
( umask 077; python -c 'open("private.txt", "w").close()'; stat -c %a private.txt )
