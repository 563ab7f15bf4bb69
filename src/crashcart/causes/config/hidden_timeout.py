"""The timeout is so long, or a watchdog is off, that a hang is never reported.

What happens: a rank stops and the others wait for it, for hours or days, with the cards at full load and no line in the log.
The hang has a cause of its own; this setting is why nothing reports it.

Why: ``ddp_timeout: 180000000`` (almost six years) stands in many examples; ``TORCH_NCCL_ENABLE_MONITORING=0`` and
``TORCH_NCCL_ASYNC_ERROR_HANDLING=0`` were set to silence one abort and stayed.

How it shows: the setting in the echoed command or config, and a log that just stops, or is ended by hand. The advice to set
``TORCH_NCCL_ENABLE_MONITORING=0`` that each heartbeat abort prints is no setting.

What to do: a time-out a little longer than the longest work without a collective (a download, a save), 10 to 60 minutes, and
raised only around that work; keep the monitor on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "A very long timeout or a disabled watchdog hides hangs"
HOUR = 3600
LONG = 6 * HOUR
SET = r"(?:ddp_?timeout|dist_?timeout|nccl_timeout|timeout_seconds)['\"]?\s{0,20}[:=\s]\s{0,20}['\"]?(?P<seconds>\d{5,20})"
OFF = r"(?:NCCL_ASYNC_ERROR_HANDLING|NCCL_ENABLE_MONITORING)['\"]?\s*[:=]\s*['\"]?0\b|termination_timeout_seconds=-1"
ADVICE = r"\b(?:set|setting|disable|you can|either|increase|consider|try)\b"

phrases = (
    weak("ddp_timeout", "dist_timeout", "nccl_timeout", says="the process group's timeout is many hours long",
         fatal=False,
         pattern=r"(?:ddp|dist|nccl)_timeout['\"]?\s{0,20}[:=\s]\s{0,20}['\"]?(?:2[2-9]\d{3}|[3-9]\d{4}|\d{6,20})\b", any_level=True),
    weak("nccl_async_error_handling", "nccl_enable_monitoring", "termination_timeout_seconds=-1",
         says="the NCCL watchdog is switched off", pattern=OFF, unless=ADVICE, fatal=False, any_level=True),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """The setting, and a run that was ended by hand without any other word."""
    log = case.log
    if log.finished or log.deaths or any(raised.kind not in {"", "KeyboardInterrupt"} for raised in log.raised):
        return
    stood = next((raised for raised in log.raised if raised.kind == "KeyboardInterrupt" or raised.stack_only), None)
    if stood is None or not compiled(r"distributed|barrier|all_?reduce|all_?gather|broadcast|wait").search(
        " ".join(stood.functions)
    ):
        return
    for line in log.lines:
        found = compiled(SET).search(line.text) if "timeout" in line.lowered else None
        off = "nccl" in line.lowered and compiled(OFF).search(line.text) and not compiled(ADVICE).search(line.text)
        if (found and to_int(found["seconds"], 0) >= LONG) or off:
            says = "processes waited in a collective until somebody stopped them, with this setting"
            yield Sign("strong", says, (evidence(line), evidence(stood.line)), fatal=False, order=stood.line.order)
            return


def in_config(case: Case) -> Iterator[Sign]:
    """A time-out of six hours and more."""
    for name, unit in (("distributed.timeout_seconds", 1), ("distributed.timeout_minutes", 60)):
        value = case.number(name)
        if value is not None and value * unit >= LONG:
            says = f"the timeout is {value * unit / HOUR:.0f} hours: a hang is not reported before that"
            yield Sign("weak", says, (case.facts[name].evidence,), fatal=False)
    for variable in ("TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"):
        fact = case.facts.get(f"environment.{variable}")
        if fact is not None and str(fact.value) == "0":
            yield Sign("weak", f"{variable}=0 switches off the watchdog that reports hangs", (fact.evidence,), fatal=False)


def in_code(case: Case) -> Iterator[Sign]:
    """A time-out of six hours and more that the code gives the process group."""
    for fact in case.all("code.group_limit"):
        seconds = fact.value["seconds"]
        if seconds is not None and seconds >= LONG:
            says = f"the code sets a timeout of {seconds / HOUR:.0f} hours: a hang is not reported before that"
            yield Sign("weak", says, (fact.evidence, *fact.value["settings"]), fatal=False)


fixes = (
    Fix(
        "Set a timeout slightly longer than the longest work between collectives",
        "exact",
        "30 minutes cover most saves and evaluations; training results stay bit-identical",
        settings={"distributed.timeout_seconds": 1800, "distributed.timeout_minutes": 30},
        environment={"TORCH_NCCL_ENABLE_MONITORING": "1", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"},
    ),
)
experiment = Experiment(
    title="Run again with a timeout of 30 minutes and the NCCL flight recorder on",
    confirms="the same hang is now reported after 30 minutes, with the collective and the missing rank",
    refutes="it gets past this point: then it was no hang, only work that takes longer than you waited",
    stop_after="the place where it hung, and 30 minutes more",
)
