import sys, os
cache = os.environ.get("CLM_CACHE", "/nonexistent/cache")
print(f"[cache] warming {cache}")
try:
    os.listdir(cache)
except OSError as e:
    print(f"[cache] OSError: {e}; falling back to building in memory", file=sys.stderr)
    sys.exit(3)
