"""os.fork as old programs use it. The child ends in every possible way; what was printed before is still in the buffer."""
import atexit, os, sys, time

atexit.register(lambda: print("atexit in", "parent" if os.getpid() == parent else "child"))
parent = os.getpid()

def child_of(function):
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(77)
    _, status = os.waitpid(pid, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    print("child ended with", code)

def by_sys_exit():
    print("child: sys.exit"); sys.exit(3)
def by_os_exit():
    print("child: os._exit"); os._exit(4)
def by_os_exit_flushed():
    print("child: flushed"); sys.stdout.flush(); os._exit(5)
def by_signal():
    import signal
    sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL); time.sleep(10)
def by_grandchild():
    pid = os.fork()
    if pid == 0:
        os._exit(6)
    os._exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]) + 1)

if len(sys.argv) > 1:
    print("buffered before the fork")     # appears twice on a pipe, as everybody who forks knows
else:
    sys.stdout.flush()
child_of(by_os_exit)
if len(sys.argv) == 1: sys.stdout.flush()
child_of(by_os_exit_flushed)
if len(sys.argv) == 1: sys.stdout.flush()
child_of(by_signal)
child_of(by_grandchild)
sys.stdout.flush()
try:
    child_of(by_sys_exit)
except SystemExit as e:
    print("exit goes through", e.code, os.getpid() == parent)
    raise
def by_exception():
    raise LookupError("in the child")
sys.stdout.flush()
child_of(by_exception)
r, w = os.pipe()
if os.fork() == 0:
    os.write(w, b"from the child"); os._exit(0)
print(os.read(r, 100)); os.wait()
if hasattr(os, "posix_spawn"):
    sys.stdout.flush()
    pid = os.posix_spawn("/bin/echo", ["echo", "spawned"], os.environ); print(os.waitpid(pid, 0)[1])
print(os.system("exit 7") >> 8, os.popen("echo popen").read().strip())
print(os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "exit 8"))
