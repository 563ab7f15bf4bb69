"""What a careful program asks the system about itself when it starts: python process_state.py [descriptors]"""
import faulthandler, locale, os, resource, signal, socket, sys, threading

listed = os.listdir("/proc/self/fd")
descriptors = sorted(int(n) for n in listed if os.path.exists("/proc/self/fd/" + n))
if len(sys.argv) > 1:
    print("descriptors", descriptors)
    sys.exit()
print("descriptors", [n for n in descriptors if n < 100])
print("umask %o" % os.umask(0o022))
print("nice", os.nice(0), "affinity", len(os.sched_getaffinity(0)), "scheduler", os.sched_getscheduler(0))
print("leader", os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())
for name in ("NOFILE", "AS", "CORE", "STACK", "NPROC", "MEMLOCK"):
    print(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
print("mask", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
for number in range(1, 32):
    try:
        print(number, signal.getsignal(number), end="; ")
    except ValueError:
        pass
print()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print({key: status[key].strip() for key in ("SigBlk", "SigIgn", "NoNewPrivs", "Seccomp", "Threads")})
print("faulthandler", faulthandler.is_enabled())
print(sys.flags)
print(sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering, sys.stdout.write_through, type(sys.stdout.buffer).__name__)
print(sys.stderr.encoding, sys.stderr.errors, sys.stderr.line_buffering, sys.stdin.encoding)
print([os.isatty(n) for n in range(3)], locale.getpreferredencoding(False), sys.getfilesystemencoding())
print(sys.argv, __name__, __file__, os.path.basename(sys.executable), sys.dont_write_bytecode, os.getcwd() == os.environ.get("PWD", os.getcwd()))
print(threading.main_thread().name, threading.active_count(), sys.path[0] == os.path.dirname(os.path.abspath(__file__)))
print([name for name in ("typing", "json", "logging", "subprocess", "multiprocessing", "tempfile", "ctypes", "sitecustomize", "usercustomize") if name in sys.modules])
try:
    import sitecustomize
except ImportError as error:
    print(error)
print(open("/proc/self/oom_score_adj").read().strip(), open("/proc/self/comm").read().strip())
