"""Stand-in of the node's agent: no process of a job may have more than so much memory."""
import argparse
import os
import signal
import time

import psutil

parser = argparse.ArgumentParser()
parser.add_argument("--limit-mb", type=int)
parser.add_argument("--log")
parser.add_argument("--job", type=int)
args = parser.parse_args()

job = psutil.Process(args.job)
with open(args.log, "w", buffering=1) as log:
    log.write(f"agent: job {args.job}, limit {args.limit_mb} MB per process\n")
    while job.is_running():
        for process in job.children(recursive=True):
            try:
                memory = process.memory_info()
                private = (memory.rss - memory.shared) >> 20
                if process.pid != os.getpid() and private > args.limit_mb:
                    process.send_signal(signal.SIGKILL)
                    log.write(f"agent: killed {process.pid} ({process.name()}), anon-rss {private} MB\n")
            except psutil.Error:
                pass
        time.sleep(0.1)
