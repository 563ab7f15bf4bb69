from types import SimpleNamespace
import yaml


def read(path):
    with open(path, encoding="utf-8") as f:
        raw = yaml.safe_load(f)
    return SimpleNamespace(**{k: SimpleNamespace(**v) if isinstance(v, dict) else v for k, v in raw.items()})
