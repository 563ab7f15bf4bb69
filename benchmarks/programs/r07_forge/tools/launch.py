import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from forge import config, engine  # noqa: E402

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--opt", action="append", default=[])
    args = parser.parse_args()
    cfg = config.load(args.config, args.opt)
    engine.Runner(cfg).run()
