"""Runs a job as the queue of the institute would."""
import argparse
import os
import signal
import subprocess
import sys
import time

ap = argparse.ArgumentParser()
ap.add_argument("--time", default="24:00:00")
ap.add_argument("--mem", default="4G")
ap.add_argument("cmd", nargs=argparse.REMAINDER)
a = ap.parse_args()
h, m, s = map(int, a.time.split(":"))
cmd = a.cmd[1:] if a.cmd[0] == "--" else a.cmd
job, node = os.environ.get("JOB", "1"), os.environ.get("NODE", "localhost")
print(f"Submitted batch job {job}; node {node}; prolog:")
print("[81233.402118] Out of memory: Killed process 99182 (java) total-vm:9120552kB, anon-rss:4018220kB, file-rss:0kB")
sys.stdout.flush()
child = subprocess.Popen(cmd, start_new_session=True)
try:
    rc = child.wait(timeout=h * 3600 + m * 60 + s)
except subprocess.TimeoutExpired:
    print(f"slurmstepd: error: *** JOB {job} ON {node} CANCELLED AT {time.strftime('%Y-%m-%dT%H:%M:%S')} DUE TO TIME LIMIT ***", file=sys.stderr, flush=True)
    os.killpg(child.pid, signal.SIGTERM)
    try:
        rc = child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        rc = child.wait()
sys.exit(rc if rc >= 0 else 128 - rc)
