"""`crashcart explain`: the page of a cause, or the list of all of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from crashcart.cause import Cause, causes
from crashcart.errors import CommandError
from crashcart.report.pages import overview, page

if TYPE_CHECKING:
    import argparse


def run(options: argparse.Namespace) -> int:
    """Print what was asked for."""
    sys.stdout.write(page(_chosen(options.cause)) if options.cause else overview())
    return 0


def _chosen(name: str) -> Cause:
    wanted = name.strip().lower()
    exact = [cause for cause in causes() if wanted in {cause.id, cause.id.split("/")[1]}]
    near = exact or [cause for cause in causes() if wanted in cause.id]
    if len(near) == 1:
        return near[0]
    if not near:
        from difflib import get_close_matches

        close = get_close_matches(wanted, [cause.id for cause in causes()], 3, 0.4)
        hint = f" Did you mean {', '.join(close)}?" if close else ""
        raise CommandError(f"No cause is named {name!r}.{hint} `crashcart explain` lists all causes.")
    raise CommandError(f"{name!r} matches several causes: {', '.join(cause.id for cause in near)}.")
