"""One rank prepares while the others wait, over notes in a store or a folder and without any collective."""

from __future__ import annotations

from crashcart.train.ranks.turns import load_once, rank_zero_first
from crashcart.train.ranks.waiting import FirstRankError

__all__ = ["FirstRankError", "load_once", "rank_zero_first"]
