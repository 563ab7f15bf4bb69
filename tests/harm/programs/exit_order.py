import atexit, logging, multiprocessing, os, sys, threading, time, weakref
import concurrent.futures

class Thing:
    def __init__(self, n): self.n = n
    def __del__(self): print("del", self.n)

def note(x): print("note", x)
module_level = Thing("module")
atexit.register(note, 1)
weakref.finalize(module_level, note, "finalizer")
atexit.register(note, 2)
logging.basicConfig(level=20, stream=sys.stdout, format="%(message)s")
pool = concurrent.futures.ThreadPoolExecutor(1)
pool.submit(time.sleep, 0.2)
if hasattr(threading, "_register_atexit"):
    threading._register_atexit(note, "threading exit")
def worker():
    atexit.register(note, "in the process")
    print("worker"); sys.stdout.flush()
sys.stdout.flush()
p = multiprocessing.get_context("fork").Process(target=worker); p.start(); p.join(); print(p.exitcode)
t = threading.Thread(target=lambda: (time.sleep(0.1), logging.info("thread"))); t.start()
atexit.register(logging.info, "logged at exit")
def late():
    atexit.register(note, "registered during exit")
    print("threads:", threading.active_count() >= 1)
atexit.register(late)
import multiprocessing.util
multiprocessing.util.Finalize(None, note, args=("mp finalizer",), exitpriority=5)
print("main ends")
