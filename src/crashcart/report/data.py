"""A diagnosis as the JSON that others rely on (`docs/schema/schema-1.json`). Needs nothing but the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.numbers import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.model import Diagnosis, Ending, Evidence, Experiment, Finding, Fix, StoryEvent

__all__ = ["SCHEMA", "json_text", "plain"]

SCHEMA = 1
_LARGEST = 1.7976931348623157e308


def json_text(data: dict[str, Any]) -> str:
    """One line of JSON that any parser takes: settings can hold what JSON has no word for, such as infinity or a date as a key."""
    import json

    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    except (ValueError, TypeError):
        return json.dumps(_sayable(data), ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _sayable(value: Any) -> Any:  # noqa: ANN401 - any plain data
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(item) for item in value]
    if isinstance(value, float) and not -_LARGEST <= value <= _LARGEST:
        return str(value)
    return value


def plain(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as plain data."""
    return {
        "schema": SCHEMA,
        "verb": diagnosis.verb,
        "subject": diagnosis.subject,
        "run": diagnosis.run,
        "ending": _ending(diagnosis.ending),
        "stages": [
            {
                "program": stage.program,
                "arguments": stage.arguments,
                "role": stage.role,
                "ranks": stage.ranks,
                "decided": stage.decided,
                "ending": _ending(stage.ending),
            }
            for stage in diagnosis.stages
        ],
        "story": [_story_event(event) for event in diagnosis.story],
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "ruled_out": [{"cause": one.cause, "evidence": _evidence(one.evidence)} for one in diagnosis.ruled_out],
        "not_looked": [{"what": one.what, "why": one.why, "how": one.how} for one in diagnosis.not_looked],
    }


def _ending(ending: Ending) -> dict[str, Any]:
    return {
        "state": ending.state,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "step": ending.step,
        "optimizer_steps": ending.optimizer_steps,
        "phase": ending.phase,
        "first_rank": ending.first_rank,
    }


def _story_event(event: StoryEvent) -> dict[str, Any]:
    return {
        "time": format_time(event.time, "%Y-%m-%dT%H:%M:%SZ") if event.time is not None else None,
        "rank": event.rank,
        "step": event.step,
        "says": event.says,
        "evidence": _evidence(event.evidence),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    signs = [sign for sign in finding.signs if sign.strength != "against"]
    opposed = [sign for sign in finding.signs if sign.strength == "against"]
    return {
        "cause": finding.cause,
        "title": finding.title,
        "role": finding.role,
        "level": finding.level,
        "strength": finding.strength,
        "score": finding.score,
        "evidence": _evidence(item for sign in signs for item in sign.evidence),
        "against": _evidence(item for sign in opposed for item in sign.evidence),
        "fixes": [_fix(fix) for fix in finding.fixes],
        "experiment": _experiment(finding.experiment),
        "verdict": finding.verdict and {"result": finding.verdict.result, "says": finding.verdict.says},
    }


def _evidence(items: Iterable[Evidence]) -> list[dict[str, Any]]:
    unique = dict.fromkeys(items)
    return [
        {"source": one.source, "where": one.where, "quote": one.quote, "rank": one.rank, "time": one.time} for one in unique
    ]


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "safety": fix.safety,
        "why": fix.why,
        "diff": fix.diff,
        "arguments": fix.arguments,
        "environment": fix.environment,
    }


def _experiment(experiment: Experiment | None) -> dict[str, Any] | None:
    if experiment is None:
        return None
    return {
        "title": experiment.title,
        "change": experiment.change,
        "start_from": experiment.start_from,
        "stop_after": experiment.stop_after,
        "confirms": experiment.confirms,
        "refutes": experiment.refutes,
    }
