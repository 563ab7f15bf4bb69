"""A diagnosis as the JSON that others rely on (schema 1). Needs nothing but the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.model import Diagnosis, Ending, Evidence, Experiment, Finding, Fix

__all__ = ["SCHEMA", "plain"]

SCHEMA = 1


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
                "program": one.program,
                "arguments": one.arguments,
                "role": one.role,
                "ranks": one.ranks,
                "decided": one.decided,
                "ending": _ending(one.ending),
            }
            for one in diagnosis.stages
        ],
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
