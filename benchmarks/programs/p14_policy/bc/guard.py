import functools
import os
import sys
import time
import traceback


def reported(fn):
    """Keep the console clean: what went wrong is written beside the run."""

    @functools.wraps(fn)
    def inner(cfg, *args):
        try:
            return fn(cfg, *args)
        except Exception:
            folder = os.path.join(cfg.run.root, cfg.run.name, "errors")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, time.strftime("%m%d-%H%M%S.txt"))
            with open(path, "w") as f:
                traceback.print_exc(file=f)
            print(f"run {cfg.run.name} stopped early")
            sys.exit(1)

    return inner
