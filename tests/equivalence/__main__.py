"""``python tests/equivalence``: what `check` says of every plan, written in every way."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from same_findings import main  # noqa: E402 - its folder is on the path from here on

if __name__ == "__main__":
    sys.exit(main())
