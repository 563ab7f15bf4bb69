"""
Poor Man's Configurator. exec(open('configurator.py').read())
"""
import sys
from ast import literal_eval

for arg in sys.argv[1:]:
    if '=' not in arg:
        assert not arg.startswith('--')
        if os.environ.get('RANK', '0') == '0':
            print(f"Overriding config with {arg}:")
        exec(open(arg).read())
    else:
        key, val = arg.split('=')
        key = key[2:]
        if key not in globals():
            raise ValueError(f"Unknown config key: {key}")
        try:
            attempt = literal_eval(val)
        except (SyntaxError, ValueError):
            attempt = val
        assert type(attempt) == type(globals()[key])
        globals()[key] = attempt
