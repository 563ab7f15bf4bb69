"""The way in for a Python that has crashcart installed: its `crashcart_inside.pth` imports this where a job asks for it.

It works where PYTHONPATH does not (`-I`, `-E`, `export PYTHONPATH=.`), and loads the same folder under the same name as
`site/sitecustomize.py` does, so that whichever comes second finds everything done.
"""

from __future__ import annotations

import os
import sys

PTH = (
    "import os; 'CRASHCART_LIVE' in os.environ and "
    "exec('try:\\n from crashcart.inside import early; early.start()\\nexcept Exception: pass')\n"
)


def start() -> None:
    """Load the inside part under its private name and start it."""
    package = sys.modules.get("_crashcart_inside")
    if package is None:
        package = type(sys)("_crashcart_inside")
        package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        package.__dict__["chained"] = set()
        sys.modules["_crashcart_inside"] = package
    __import__("_crashcart_inside.boot")
    sys.modules["_crashcart_inside.boot"].start()
