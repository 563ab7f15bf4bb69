import faulthandler, os, signal, subprocess, sys, threading, time
log = []
def on(number, frame):
    log.append((int(number), frame.f_code.co_name, threading.current_thread().name))
for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT, signal.SIGRTMIN + 1):
    signal.signal(s, on)
for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGWINCH, signal.SIGCONT, signal.SIGRTMIN + 1):
    os.kill(os.getpid(), s)
signal.setitimer(signal.ITIMER_REAL, 0.05)
def wait_for_alarm():
    end = time.time() + 10
    while not any(n == signal.SIGALRM for n, *_ in log) and time.time() < end:
        time.sleep(0.01)
wait_for_alarm()
subprocess.run(["true"])
print([(a, c) for a, b, c in log])
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
print(signal.sigpending(), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGINT).__name__)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigpending(), signal.sigwait([signal.SIGUSR1]))
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(11))
    print("ready", flush=True); os.write(w, b"1")
    while True: time.sleep(0.1)
os.read(r, 1)
os.kill(pid, signal.SIGTERM); print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
print(faulthandler.is_enabled())
with open("stacks.txt", "w") as f:
    faulthandler.register(signal.SIGUSR2, file=f, all_threads=False)
    os.kill(os.getpid(), signal.SIGUSR2)
    faulthandler.dump_traceback_later(0.1, file=f)
    end = time.time() + 20
    while "Timeout" not in open("stacks.txt").read() and time.time() < end: time.sleep(0.05)
    time.sleep(0.2)
    faulthandler.cancel_dump_traceback_later()
    text = open("stacks.txt").read()
    print(text.count("Timeout"), text.count("signals.py"))
with open("stacks.txt", "w") as f: pass
faulthandler.enable(); print(faulthandler.is_enabled()); faulthandler.disable(); print(faulthandler.is_enabled())
r = subprocess.run([sys.executable, "-X", "faulthandler", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"], stderr=subprocess.PIPE, text=True)
print(r.returncode, r.stderr.splitlines()[0])
r = subprocess.run([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"], stderr=subprocess.PIPE, text=True)
print(r.returncode, repr(r.stderr))
