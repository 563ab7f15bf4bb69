import sys, warnings, os
warnings.warn("old_results is deprecated and will be removed in the next release", DeprecationWarning)
if not os.path.isdir(sys.argv[1]):
    raise SystemExit(f"FileNotFoundError: {sys.argv[1]} (nothing to compare with)")
