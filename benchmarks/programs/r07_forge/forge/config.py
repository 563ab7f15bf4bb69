import os

import yaml


def merge(low, high):
    for key, value in high.items():
        if isinstance(value, dict) and isinstance(low.get(key), dict):
            merge(low[key], value)
        else:
            low[key] = value
    return low


def cast(old, text):
    """An override has the type of the value that it replaces."""
    if isinstance(old, bool):
        return text.lower() in {"1", "true", "yes"}
    if isinstance(old, int):
        return int(text)
    return text


def load(path, overrides):
    with open(path) as f:
        cfg = yaml.safe_load(f)
    if base := cfg.pop("base", None):
        with open(os.path.join(os.path.dirname(path), base)) as f:
            cfg = merge(yaml.safe_load(f), cfg)
    for item in overrides:
        key, _, text = item.partition("=")
        *parents, leaf = key.split(".")
        node = cfg
        for parent in parents:
            node = node[parent]
        node[leaf] = cast(node[leaf], text)
    return cfg
