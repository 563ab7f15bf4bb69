"""Nothing is lost: what goes wrong is written beside the experiment."""
import datetime
import functools
import os
import platform
import sys
import traceback


def reported(function):
    @functools.wraps(function)
    def wrapper(args):
        try:
            return function(args)
        except Exception:
            os.makedirs(args.out, exist_ok=True)
            path = os.path.join(args.out, "failure.txt")
            with open(path, "w") as f:
                f.write(f"{datetime.datetime.now():%F %T} on {platform.node()}, python {platform.python_version()}\n")
                f.write(f"arguments {vars(args)}\n\n")
                f.write(traceback.format_exc())
            print("The experiment could not be finished.")
            sys.exit(1)

    return wrapper
