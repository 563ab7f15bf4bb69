"""Started with every flag of the interpreter."""
import os
import sys
import threading
import warnings

print(sys.flags, sys.warnoptions, sorted(sys._xoptions))
try:
    assert len(sys.argv) > 5, "asserts are on"
    print("asserts are off")
except AssertionError as error:
    print(error)
try:
    warnings.warn("a warning", DeprecationWarning, stacklevel=1)
except Warning as error:
    print("raised", error)
f = open(__file__)
del f
pid = os.fork()
if pid == 0:
    os._exit(3)
print(os.waitpid(pid, 0)[1] >> 8)
import multiprocessing
p = multiprocessing.get_context("fork").Process(target=int)
p.start()
p.join()
t = threading.Thread(target=lambda: 1 / 0)
t.start()
t.join()
print(f"{'site' in sys.modules}", __doc__)
raise SystemExit(0)
