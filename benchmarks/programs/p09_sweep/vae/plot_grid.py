import sys
try:
    import seaborn  # noqa: F401
except ImportError as e:
    print("plot_grid:", e, file=sys.stderr)
    raise
