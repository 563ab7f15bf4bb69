"""os.fork as old programs use it. The child ends in every possible way: python forks.py [unflushed]"""
import atexit, os, sys, time

def say(*words):
    print(*words, flush=len(sys.argv) == 1)

atexit.register(lambda: say("atexit in", "parent" if os.getpid() == parent else "child"))
parent = os.getpid()

def child_of(function):
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(77)
    _, status = os.waitpid(pid, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    say("child ended with", code)

def by_sys_exit():
    say("child: sys.exit"); sys.exit(3)
def by_os_exit():
    say("child: os._exit"); os._exit(4)
def by_os_exit_flushed():
    say("child: flushed"); sys.stdout.flush(); os._exit(5)
def by_signal():
    import signal
    sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL); time.sleep(10)
def by_grandchild():
    pid = os.fork()
    if pid == 0:
        os._exit(6)
    os._exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]) + 1)

say("said before the fork")  # unflushed it appears twice on a pipe, as everybody who forks knows
child_of(by_os_exit)
child_of(by_os_exit_flushed)
child_of(by_signal)
child_of(by_grandchild)
try:
    child_of(by_sys_exit)
except SystemExit as e:
    say("exit goes through", e.code, os.getpid() == parent)
    raise
def by_exception():
    raise LookupError("in the child")
child_of(by_exception)
r, w = os.pipe()
if os.fork() == 0:
    os.write(w, b"from the child"); os._exit(0)
say(os.read(r, 100)); os.wait()
if hasattr(os, "posix_spawn"):
    pid = os.posix_spawn("/bin/echo", ["echo", "spawned"], os.environ); say(os.waitpid(pid, 0)[1])
say(os.system("exit 7") >> 8, os.popen("echo popen").read().strip())
say(os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "exit 8"))
