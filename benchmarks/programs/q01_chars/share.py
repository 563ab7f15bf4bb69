"""Looks after a tree of processes: sum of the proportional sizes; the largest one goes when the share is passed."""
import argparse
import os
import signal
import time

ap = argparse.ArgumentParser()
ap.add_argument("--root", type=int)
ap.add_argument("--megabytes", type=int)
a = ap.parse_args()


def parents():
    out = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open(f"/proc/{d}/stat") as f:
                    out[int(d)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    return out


def pss(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next(int(l.split()[1]) for l in f if l.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


while os.path.exists(f"/proc/{a.root}"):
    par = parents()
    tree, grew = {a.root}, True
    while grew:
        more = {p for p, q in par.items() if q in tree} - tree
        tree |= more
        grew = bool(more)
    size = {p: pss(p) for p in tree}
    total = sum(size.values()) // 1024
    if total > a.megabytes:
        big = max((p for p in size if p != a.root), key=size.get, default=a.root)
        print(time.strftime("%T"), total, "MB in", len(size), "processes;", big, "had", size[big] // 1024, flush=True)
        os.kill(big, signal.SIGKILL)
        time.sleep(2)
    time.sleep(0.25)
