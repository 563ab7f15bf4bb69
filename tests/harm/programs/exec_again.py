import os, sys
turn = int(sys.argv[1]) if len(sys.argv) > 1 else 0
listed = os.listdir("/proc/self/fd")
print("turn", turn, sorted(int(f) for f in listed if os.path.exists("/proc/self/fd/" + f)), flush=True)
if turn < 3:
    os.environ["TURN"] = str(turn)
    if turn == 1:
        os.execve(sys.executable, [sys.executable, "-B", __file__, str(turn + 1)], os.environ)
    os.execv(sys.executable, [sys.executable, __file__, str(turn + 1)])
os.execlp("sh", "sh", "-c", "echo last; exit 6")
