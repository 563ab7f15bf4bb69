"""How each recorded run went, from its small files alone: a list of hundreds must not read a single recording.

A run of several nodes went as its nodes did; one that ended badly or is lost counts, and the cause is that of the node which has
one of its own, not an echo.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from crashcart.deadline import Allowance, too_long
from crashcart.documents import load_json
from crashcart.flight import took
from crashcart.numbers import format_time
from crashcart.pattern import Pattern
from crashcart.readers import sound
from crashcart.recording.files import top_of
from crashcart.recording.folder import nodes_of, read_json
from crashcart.recording.meeting import lives
from crashcart.regular_files import read_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["outcome_of", "outcomes_of"]

_TAIL = 1 << 16
_MOST_DAMAGES = 8
_ALL_SECONDS, _RUN_SECONDS = 3.0, 0.5
_ECHOES = ("distributed/peer-died", "unknown/not-enough-evidence")
_WORST = ("hangs", "running", "failed", "killed", "hung", "lost", "stopped", "not started", "damaged", "unknown", "finished")
_ID = Pattern(r"[a-z0-9-]{1,60}/[a-z0-9-]{1,60}\Z")


def outcomes_of(paths: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Runs as plain data; of one whose files take too long nothing but that is known."""
    allowance = Allowance(_ALL_SECONDS, _RUN_SECONDS)
    for path in paths:
        yield allowance.attempt(partial(outcome_of, path), _unread(path))[0]


def _unread(path: str) -> dict[str, Any]:
    row = dict.fromkeys(("host", "user", "command", "cause"))
    told = {
        "started": 0.0,
        "ended": 0.0,
        "state": "unknown",
        "outcome": f"unknown ({too_long(_RUN_SECONDS)})",
        "stages": [],
        "damaged": [],
        "took": "",
    }
    return {"run": os.path.basename(path), "path": path, **row, **told}


def outcome_of(path: str) -> dict[str, Any]:
    """One run as plain data."""
    parts = nodes_of(path)
    rows = [_row(part) for part in parts or [path]]
    row = min(rows, key=lambda one: (_WORST.index(one["state"]), one["ended"] or 0.0))
    if parts:
        hosts = [os.path.basename(part) for part in parts]
        ended = [one["ended"] for one in rows]
        started = min((one["started"] for one in rows if one["started"]), default=0.0)
        row |= {
            "started": started,
            "ended": max(ended) if all(ended) else 0.0,
            "host": ", ".join(hosts),
            "nodes": len(parts),
            "damaged": [f"{host}: {name}" for host, one in zip(hosts, rows, strict=True) for name in one["damaged"]],
        }
        row["cause"] = _cause_of_all(path, rows)
    row["took"] = took(max(0.0, (row["ended"] or time.time()) - row["started"])) if row["started"] else ""
    if row["state"] == "lost":
        row["took"] = ""
    return {"run": os.path.basename(path), "path": path, **row}


def _row(path: str) -> dict[str, Any]:
    told, exit_told = read_json(os.path.join(path, "run.json")), read_json(os.path.join(path, "exit.json"))
    facts, findings = sound.facts(told), sound.facts(read_json(os.path.join(path, "findings.json")))
    exit_status = sound.event_details(exit_told)
    state, detail = _state(path, facts, exit_status, findings.get("ending", {}))
    damaged = [f"{name} in run.json" for name in sound.left_out(told)]
    damaged += [f"{name} in exit.json" for name in sound.left_out(exit_told)]
    return {
        "host": _word(facts.get("host")),
        "user": _word(facts.get("user")),
        "command": _word(facts.get("command")),
        "started": _number(facts.get("started")),
        "ended": _number(facts.get("ended")) or _number(exit_status.get("time")),
        "state": state,
        "outcome": f"{state} {detail}" if state == "hangs" else f"{state} ({detail})" if detail else state,
        "cause": _cause(findings, state),
        "stages": _stages(findings),
        "damaged": damaged[:_MOST_DAMAGES],
    }


def _stages(findings: dict[str, Any]) -> list[dict[str, Any]]:
    """The programs of the run in brief, where there are several."""
    stages = [stage for stage in findings.get("stages", ()) if "ending" in stage]
    return [
        {
            "program": _word(stage.get("program")),
            "role": _word(stage.get("role")),
            "state": _word(stage["ending"].get("state")),
            "decided": stage.get("decided") is True,
        }
        for stage in (stages if len(stages) > 1 else ())
    ]


def _state(path: str, facts: dict[str, Any], ended: dict[str, Any], told: dict[str, Any]) -> tuple[str, str]:
    """The word for how it went, and code or signal."""
    state = facts.get("state")
    if state not in _WORST:
        return ("unknown" if facts else "damaged"), ""
    signal, code = facts.get("signal") or ended.get("signal"), facts.get("code", ended.get("code"))
    detail = str(signal) if isinstance(signal, str) else str(code) if isinstance(code, int) and code else ""
    if state == "running" and ended:  # the supervisor was killed; the keeper still wrote how the job ended
        state = "finished" if code == 0 else "killed" if signal else "failed"
    if state == "running":
        since = _hangs(path)
        return ("hangs" if since else "running") if lives(path, facts) else "lost", since
    if told.get("state") == "hung" and state != "finished":
        state = "hung"
    return state, "" if state in {"finished", "hung"} else detail


def _hangs(path: str) -> str:
    """Since when a job stands still and for whom it waits, where that is the last that was noticed of it; else nothing."""
    last: dict[str, Any] = {}
    try:
        end, _ = read_end(os.path.join(path, "recording", "events.jsonl"), _TAIL, no_links_below=top_of(path))
    except OSError:
        return ""
    for line in end.split(b"\n"):
        if b'"kind": "hang"' in line or b'"kind": "goes-on"' in line:
            with contextlib.suppress(ValueError):
                last = load_json(line)
    if not isinstance(last, dict) or last.get("kind") != "hang":
        return ""
    since = format_time(_number(last.get("since")) or _number(last.get("t")), "%H:%M", utc=False)
    rank = sound.place(last.get("rank"))
    return f"since {since}" + (f", rank {rank}" if rank is not None else "")


def _cause(findings: dict[str, Any], state: str) -> str | None:
    first: dict[str, Any] = next(iter(findings.get("findings", ())), {})
    if state == "finished" and first.get("role") != "cause":
        return None
    cause = first.get("cause")
    return cause if isinstance(cause, str) and _ID.match(cause) else None


def _cause_of_all(path: str, rows: list[dict[str, Any]]) -> str | None:
    """What ``why`` said of all nodes together; else of the one that has a cause of its own."""
    told = _cause(sound.facts(read_json(os.path.join(path, "findings.json"))), "")
    known = [row["cause"] for row in sorted(rows, key=lambda one: one["ended"] or 0.0) if row["cause"]]
    return told or next((cause for cause in known if cause not in _ECHOES), known[0] if known else None)


def _word(value: object) -> str | None:
    """A text of ours, or nothing where the file was damaged."""
    return value if isinstance(value, str) else None


def _number(value: object) -> float:
    """A time of ours, or nothing where the file was damaged."""
    return sound.finite(value) or 0.0
