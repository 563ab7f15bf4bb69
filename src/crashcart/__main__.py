"""`python -m crashcart` is `crashcart`."""

import os
import sys

# `-m` looks for modules in the present folder first; nothing of the project there is to be imported.
if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.realpath("."):
    del sys.path[0]

from crashcart.cli import program

program()
