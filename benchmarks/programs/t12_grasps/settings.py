import copy
import types

import yaml


def merged(low, high):
    out = copy.deepcopy(low)
    for key, value in high.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def load(paths):
    """Files from the left to the right, the later one wins."""
    conf = {}
    for path in paths:
        with open(path) as f:
            conf = merged(conf, yaml.safe_load(f))
    return dotted(conf)


def dotted(tree):
    return types.SimpleNamespace(**{k: dotted(v) if isinstance(v, dict) else v for k, v in tree.items()})
