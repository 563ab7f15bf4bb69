"""`crashcart completion`: a completion script for the shell, made by shtab from the parser itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from crashcart.arguments import parser
from crashcart.errors import CommandError

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise CommandError("Shell completion needs shtab: `pip install 'crashcart[complete]'`.") from None
    sys.stdout.write(shtab.complete(parser(), options.shell) + "\n")
    return 0
