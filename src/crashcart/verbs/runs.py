"""``crashcart runs``: what was recorded, newest first, with how it ended and why."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from crashcart.flight import took
from crashcart.recording.folder import read_json, runs
from crashcart.redact import clean

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """List the runs."""
    rows = [_row(path) for path in runs()]
    if options.json:
        print(json.dumps({"schema": 1, "runs": rows}))  # noqa: T201 - the answer
        return 0
    if not rows:
        print("No runs here. `crashcart run -- CMD` records one.")  # noqa: T201 - the answer
        return 0
    width, outcome = (max(len(str(row[name])) for row in rows) for name in ("run", "outcome"))
    for row in rows:
        line = f"{row['run']:{width}}  {row['outcome']:{outcome}}  {row['took']:>7}  {row['cause'] or ''}"
        print(clean(line.rstrip()))  # noqa: T201 - the answer
    return 0


def _row(path: str) -> dict[str, Any]:
    facts, findings = read_json(os.path.join(path, "run.json")), read_json(os.path.join(path, "findings.json"))
    exit_status = read_json(os.path.join(path, "exit.json"))
    ended = _number(facts.get("ended")) or _number(exit_status.get("time"))
    started = _number(facts.get("started"))
    told = findings.get("findings")
    first = told[0] if isinstance(told, list) and told and isinstance(told[0], dict) else {}
    return {
        "run": os.path.basename(path),
        "path": path,
        "host": facts.get("host"),
        "user": facts.get("user"),
        "command": facts.get("command"),
        "started": started,
        "ended": ended,
        "outcome": _outcome(path, facts, exit_status),
        "took": took((ended or time.time()) - started) if started else "",
        "cause": first.get("cause"),
    }


def _outcome(path: str, facts: dict[str, Any], exit_status: dict[str, Any]) -> str:
    state = facts.get("state", "unknown")
    if state == "running" and (exit_status or not os.path.exists(f"/proc/{facts.get('job', 0)}")):
        # The supervisor was killed; the keeper still wrote how the job ended.
        if not exit_status:
            return "unknown"
        state = "finished" if exit_status.get("code") == 0 else "failed"
    if state == "running":
        return _hung(path) or "running"
    detail = facts.get("signal") or exit_status.get("signal") or facts.get("code", exit_status.get("code"))
    return str(state) if state == "finished" or detail is None else f"{state} ({detail})"


def _hung(path: str) -> str:
    """Since when a run that is there does not move, and for whom it waits; nothing where it does."""
    last: dict[str, Any] = {}
    try:
        with open(os.path.join(path, "recording", "events.jsonl"), "rb") as file:
            for line in file:
                if b'"hang"' in line or b'"goes-on"' in line:
                    last = _parsed(line) or last
    except OSError:
        return ""
    if last.get("kind") != "hang":
        return ""
    since = time.strftime("%H:%M", time.localtime(_number(last.get("since")) or _number(last.get("t"))))
    rank = last.get("rank")
    return f"hung since {since}" + (f", rank {rank}" if isinstance(rank, int) else "")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    """A time of ours, or nothing where the file was damaged."""
    return float(value) if isinstance(value, (int, float)) else 0.0
