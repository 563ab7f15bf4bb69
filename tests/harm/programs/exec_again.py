import os, sys
turn = int(sys.argv[1]) if len(sys.argv) > 1 else 0
listed = sorted(int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f))
print("turn", turn, [n for n in listed if n < 100], len(listed) < 5, flush=True)  # nothing piles up from turn to turn
if turn < 3:
    os.environ["TURN"] = str(turn)
    if turn == 1:
        os.execve(sys.executable, [sys.executable, "-B", __file__, str(turn + 1)], os.environ)
    os.execv(sys.executable, [sys.executable, __file__, str(turn + 1)])
os.execlp("sh", "sh", "-c", "echo last; exit 6")
