"""A folder that ``crashcart run`` made, or the folders of all nodes of a job, as part of a case: recording, ending, logs, notes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.account import is_same_exception
from crashcart.case import ExitStatus
from crashcart.deadline import attempt, too_long
from crashcart.deaths import finished, stop, trained_well
from crashcart.flight import Pid, clock, took
from crashcart.model import Evidence, NotLooked
from crashcart.numbers import format_time
from crashcart.readers import sound
from crashcart.readers.flight import bare_flight, read_flight
from crashcart.readers.run_logs import logs_of_run
from crashcart.readers.scheduler import scheduler_words
from crashcart.record import replace
from crashcart.recording.files import has_file, linked_entries
from crashcart.recording.folder import is_run, nodes_of, read_json
from crashcart.recording.meeting import NODES
from crashcart.recording.print_times import read_print_times
from crashcart.stages import exit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.case import Case
    from crashcart.flight import Flight
    from crashcart.log import Log
    from crashcart.recording.print_times import Printed

__all__ = ["Recorded", "is_run", "read_recorded", "without_other_stages"]

_SCRIPTS = (".sh", ".sbatch", ".slurm")
_SECONDS = 2.0


class Recorded(NamedTuple):
    """What is left to be read: logs, launch scripts, else the command, kernel logs with the pids that are the job's; when logs were printed."""

    logs: list[str]
    scripts: list[str]
    command: str
    kernels: list[tuple[str, frozenset[int]]]
    printed: dict[str, Printed]


def read_recorded(case: Case, given: Sequence[str]) -> Recorded:
    """Fill in what the run folders say; those of one job become one flight, of others the last is taken."""
    parts = [part for folder in given for part in nodes_of(folder) or [folder]]
    facts = [sound.facts(read_json(os.path.join(part, "run.json"))) for part in parts]
    name = os.path.basename(os.path.abspath(given[0]))
    if len(parts) > 1:
        from crashcart.readers.nodes import read_nodes, same_group

        several = same_group(facts)
    else:
        several = False
    read = parts if several else parts[-1:]
    flight, in_time = attempt(
        lambda: read_nodes(parts, name) if several else read_flight(parts[-1]), _SECONDS, bare_flight(parts[-1])
    )
    if not in_time:
        case.not_looked.append(NotLooked("what was recorded", too_long(_SECONDS)))
    case.flight = flight
    flight.events += scheduler_words(flight)
    flight.events.sort(key=lambda event: event.time)
    case.notes.append(Evidence("recorder", _who(flight, given[-1]), os.path.join(read[0], "run.json")))
    _earlier(case, flight.facts)
    for event in flight.of_kind("unread"):
        quote = f"its {event.details.get('stream')} was closed by its reader, as `head` does"
        case.notes.append(Evidence("recorder", quote, event.evidence.where))
    if flight.facts.get("lost"):
        case.not_looked.append(
            NotLooked("all of the log", f"{flight.facts['lost']} bytes of it were lost because the disk was full")
        )
    _asked(case)
    _left_out(case, flight, read[-1], several=several)
    for part in read:
        case.not_looked += [NotLooked(path, why) for path, why in linked_entries(part)]
    scripts, command = _launched(flight.facts)
    case.exit = _exit_status(case, flight)
    logs = [path for part, told in zip(parts, facts, strict=True) for path in _logs(part, told)]
    return Recorded(
        logs, scripts, command, _kernels(flight, read), _print_times(parts[-1]) if flight.stages[1:] and not several else {}
    )


def without_other_stages(log: Log, flight: Flight) -> Log:
    """The log without the exceptions of programs that did not decide how the run ended: the recording knows who raised them."""
    stage = flight.stage
    if stage is None:
        return log
    told = [event for event in flight.of_kind("exception") if event.pid is not None]
    others = [event for event in told if event.pid not in stage.pids]
    own = [event for event in told if event.pid in stage.pids]
    dropped = [
        one
        for one in log.raised
        if any(is_same_exception(one, event) for event in others) and not any(is_same_exception(one, event) for event in own)
    ]
    if not dropped:
        return log
    orders = {
        line.order
        for one in dropped
        for line in log.around(one.line, before=2 * len(one.frames) + 1, after=one.message.count("\n"))
    }
    return replace(
        log,
        lines=[line for line in log.lines if line.order not in orders],
        raised=[one for one in log.raised if one not in dropped],
        memory=[one for one in log.memory if one.line.order not in orders],
        _index=None,
    )


def _exit_status(case: Case, flight: Flight) -> ExitStatus | None:
    """How the work ended: as the program that decided did, where that is known, else as the command did."""
    code, signal = flight.ending.get("code"), flight.ending.get("signal")
    if code is None and not signal:
        return None
    quote = f"the command was killed by {signal}" if signal else f"exit code {code}"
    stage = flight.stage
    if stage is not None and stage.failed:
        own_code, own_signal = exit_of(flight, stage)
        if (own_code, own_signal) not in {(None, None), (0, None), (code, signal)}:
            how = f"by {own_signal}" if own_signal else f"with exit code {own_code}"
            quote = (
                f"{stage.program} ended {how}; {quote}"
                if signal
                else f"{stage.program} ended {how}; the command with {quote}"
            )
            code, signal = own_code, own_signal
    elif stage is not None and trained_well(flight) and (code, signal) != (0, None):
        quote = f"{stage.program} ended with exit code 0; after it the command ended {f'by {signal}' if signal else f'with {quote}'}"
        code, signal = 0, None
        case.notes.append(Evidence("exit", quote, "exit.json"))
    return ExitStatus(code, signal, Evidence("exit", quote, "exit.json"))


def _who(flight: Flight, folder: str) -> str:
    """Whose run it was, where and when."""
    facts = flight.facts
    started, ended = facts.get("started"), facts.get("ended") or flight.ending.get("time")
    when = ""
    if isinstance(started, (int, float)) and started > 0:
        when = f", started {format_time(started, '%Y-%m-%d %H:%M:%SZ')}"
        when += f", took {took(max(0.0, ended - started))}" if isinstance(ended, (int, float)) else ""
    return f"run {os.path.basename(os.path.abspath(folder))} of {facts.get('user')} on {facts.get('host')}{when}: {facts.get('command')}"


def _asked(case: Case) -> None:
    """A job that was told to stop, saved and ended well is no failure; but it is not at its end either."""
    asked = stop(case)
    if asked is not None and finished(case):
        name, event = asked
        sender = f" from {event.details['name']}" if event.details.get("name") else ""
        quote = f"{name} reached the job at {clock(event.time)}{sender}; it then exited with code 0"
        case.notes.append(Evidence("recorder", quote, f"recorder {clock(event.time)}"))


def _earlier(case: Case, facts: dict[str, Any]) -> None:
    for before in facts.get("before") or ():
        found = sound.facts(read_json(os.path.join(str(before), "findings.json")))
        told: dict[str, Any] = next(iter(found.get("findings", ())), {})
        quote = f"an earlier attempt ended with: {told.get('title', 'no finding')} ({told.get('cause')})"
        case.notes.append(Evidence("recorder", quote, str(before)))


def _left_out(case: Case, flight: Flight, folder: str, *, several: bool) -> None:
    """Processes that were not reached from inside, and nodes whose recording is not here or stops."""
    for process in flight.ranks:
        if not process.reached:
            how = (
                "its interpreter did not load crashcart's hooks (another environment, -S, or cleared environment variables)"
            )
            case.not_looked.append(NotLooked(f"the inside of {process.name} ({process.pid})", how))
    for node in flight.nodes:
        if node.lost:
            quote = f"node {node.name}: no sample since {clock(node.last)}, and no record of how the job ended there"
            case.notes.append(Evidence("recorder", quote, node.folder))
    own = flight.facts.get("node")
    least = flight.facts.get("least") if several else own.get("least") if isinstance(own, dict) else None
    here = len(flight.nodes) or 1
    whole = os.path.dirname(os.path.dirname(os.path.abspath(folder)))
    if several:
        from crashcart.readers.nodes import clock_notes

        case.notes += clock_notes(case)
    elif (
        isinstance(own, dict)
        and os.path.basename(os.path.dirname(os.path.abspath(folder))) == NODES
        and len(nodes_of(whole)) > 1
    ):
        case.not_looked.append(
            NotLooked("the other nodes of the job", "only one was given", f"`crashcart why {whole}` reads all")
        )
        return
    if isinstance(least, int) and least > here:
        why = "they did not start, or they write to another file system"
        how = "give `crashcart why` the run folders of all nodes together"
        case.not_looked.append(NotLooked(f"the recordings of {least - here} of {least} nodes", why, how))


def _launched(facts: dict[str, Any]) -> tuple[list[str], str]:
    """The launch scripts that the command names; else the command itself."""
    command = str(facts.get("command", ""))
    own = [os.path.join(str(facts.get("folder", ".")), word) for word in command.split() if word.endswith(_SCRIPTS)]
    return [path for path in own if os.path.isfile(path)], command


def _kernels(flight: Flight, parts: Sequence[str]) -> list[tuple[str, frozenset[int]]]:
    """Kernel logs that were kept, each with the processes that its machine had."""
    names = {node.folder: node.name for node in flight.nodes}
    found = []
    for part in parts:
        path = os.path.join(part, "kernel.log")
        if has_file(part, "kernel.log"):
            own = (pid for pid in flight.processes if not isinstance(pid, Pid) or pid.node == names.get(part))
            found.append((path, frozenset(pid.number if isinstance(pid, Pid) else pid for pid in own)))
    return found


def _print_times(part: str) -> dict[str, Printed]:
    """When the logs of a run were printed, by their paths."""
    return {os.path.join(part, "logs", name): printed for name, printed in read_print_times(part).items()}


def _logs(part: str, facts: dict[str, Any]) -> list[str]:
    told = facts.get("logs")
    names = [name for name in told if isinstance(name, str)] if isinstance(told, list) else []
    return logs_of_run(os.path.join(part, "logs"), names)
