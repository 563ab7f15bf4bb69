import ast

DEFAULTS = {"env": "hopper2d", "total_steps": 120, "lr": 1.5e-3, "batch": 64, "seed": 0, "teacher": None, "resume": "never", "out": "snapshots"}


def from_words(words):
    settings = dict(DEFAULTS)
    for word in words:
        key, value = word.split("=", 1)
        if key not in settings:
            raise SystemExit(f"unknown setting {key}")
        try:
            settings[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[key] = value
    return settings
