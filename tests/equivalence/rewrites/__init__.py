"""Ways to write the same program differently, one group a file."""

from __future__ import annotations

from . import assignments, calls, classes, control_flow, expressions, functions, loops, modules, naming
from .program import REWRITES, Program, Rewrite

__all__ = [
    "REWRITES", "Program", "Rewrite", "assignments", "calls", "classes", "control_flow", "expressions", "functions", "loops", "modules",
    "naming",
]  # fmt: skip
