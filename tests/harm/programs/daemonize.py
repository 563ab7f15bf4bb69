"""Starts a daemon by the book and leaves it running, and a job in the background of a shell."""
import os, subprocess, sys, time

def daemon():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0)
    for fd in range(64):
        try: os.close(fd)
        except OSError: pass
    fd = os.open("/dev/null", os.O_RDWR)
    os.dup2(fd, 1); os.dup2(fd, 2)
    with open(os.path.join(here, "daemon.pid.txt"), "w") as f:
        f.write("written by the daemon\n")
    os.execvp("sleep", ["sleep", "41.5"])

here = os.getcwd()
daemon()
os.wait()
subprocess.Popen(["sleep", "43.25"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
if "--environment-cleared" in sys.argv:
    subprocess.Popen(["env", "-i", "sleep", "44.75"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while not os.path.exists("daemon.pid.txt"): time.sleep(0.01)
print("started")
