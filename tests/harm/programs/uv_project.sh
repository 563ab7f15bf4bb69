#!/bin/bash
set -eu
export UV_OFFLINE=1 UV_NO_PROGRESS=1 UV_CACHE_DIR=$TMPDIR/uv UV_PYTHON_DOWNLOADS=never
cat > script.py <<'PY'
import subprocess, sys
print("in", sys.prefix.rsplit("/", 1)[-1], sys.prefix != sys.base_prefix)
print(subprocess.check_output([sys.executable, "-c", "print(1 + 1)"]))
sys.exit(12)
PY
uv -q venv --python "$(command -v python)" .venv
uv -q run --no-project --python .venv/bin/python script.py || echo "exit $?"
rm -rf .venv "$TMPDIR/uv"
