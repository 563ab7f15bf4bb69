"""`python -m crashcart` is `crashcart`."""

import sys

from crashcart.cli import main

sys.exit(main())
