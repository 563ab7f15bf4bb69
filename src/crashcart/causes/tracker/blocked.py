"""The program is blocked in an experiment tracker: a call, an upload or the wait at the end.

What happens: training stands still, or is done and does not end, while the tracker waits for its server, its service
process or its own queue.

Why: the server is slow or away and the client retries for minutes to hours; ``finish()`` waits for uploads (artifacts,
checkpoints); the writer was made before a fork, so its thread is missing in the child and its queue is full; the service
process died.

How it shows: stacks in ``wandb/sdk``, ``mlflow/utils/rest_utils`` or ``event_file_writer``; ``Network error (...),
entering retry loop`` with nothing after it; an upload bar that repeats the same number; ``Retrying (...)`` lines for the
tracker's address. A recording has the call and how long it stood there.

What to do: ``WANDB_MODE=offline`` and ``wandb sync`` later (calls that need the server will raise); fewer and smaller
uploads; a time-out on the client (``MLFLOW_HTTP_REQUEST_MAX_RETRIES``); make the writer after the fork. Then check that
the hang did not move to ``finish()`` at exit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, strong, weak
from crashcart.causes._joined import edits_of, launched_with, ranks
from crashcart.causes.hang._recorded import OUTSIDE, TIME_OUT, stall
from crashcart.causes.tracker._frames import HOSTS, TRACKER, in_tracker, went_on
from crashcart.deaths import order
from crashcart.flight import took
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line, Raised
    from crashcart.model import Fact, Strength

title = "The program is blocked in the experiment tracker"
piece = "nonblocking"
alike = ("tracker/failed", "tracker/rows-lost")
phrases = (
    strong("uploading", says="an upload by the tracker has been running for minutes", any_level=True,
           pattern=r"wandb: .{0,100}uploading .{0,100}\((?:[1-9]|\d\d)\.\d{1,20}m\)"),
    strong("neptune server failed", "failed to reach neptune", "comet.com is unreachable", says="the tracker keeps retrying a failing request",
           any_level=True, fatal=False, pattern=r"[Rr]etry|[Tt]imeout|unreachable"),
    weak("entering retry loop", "waiting for w&b process to finish", "mb uploaded", "graphql request initiated by",
         "waiting for the remaining", "api/2.0/mlflow", "mlflowretry", "jitteredretry", "retry attempt failed",
         says="the tracker waits for its server", fatal=False),
)  # fmt: skip
PENDING = (
    r"entering retry loop|waiting for w&b process to finish|waiting for wandb\.init|MB(?: of [\d.]{1,24} ?MB)? uploaded|"
    r"graphql request initiated by .{0,200} timed out|waiting for the remaining \d{1,20} operations|"
    r"wandb: .{0,12}uploading (?:data|history|summary|files|\S{1,80};)|retrying \((?:mlflow|jittered)?retry\(|uploading artifact|retrying in .{0,200}(?:wandb|mlflow)"
)
SETTLED = r"resolved after|Synced \d|View run|View project|Run summary|Run history|find logs at|sync this run|Syncing run"
WORDS = ("wandb", "mlflow", "neptune", "comet", "clearml", "retry", "uploaded")
AT_END = 15
BEFORE = 40
AFTER = 3
SLOW_CALL, SLOW_SHARE = 10.0, 0.2  # seconds, and share of the run's time
NAMED = r"[Ee]rror occurred|^(?:\w+\.)+\w*(?:Error|Exception|Timeout)\b: \S|^\w*(?:Error|Exception): \S"
WEB = frozenset({
    "gaierror", "ConnectionError", "MaxRetryError", "NewConnectionError", "NameResolutionError", "ConnectTimeoutError",
    "ReadTimeoutError", "ReadTimeout", "ConnectTimeout", "SSLError", "ProxyError", "ConnectionRefusedError", "timeout",
    "TimeoutError", "ConnectionResetError", "RemoteDisconnected", "ProtocolError", "HTTPError", "OSError", "SSLCertVerificationError",
})  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """A stack that stands in the tracker, or a log whose last words are the tracker's waiting."""
    for raised in case.log.raised:
        if raised.kind != "KeyboardInterrupt" and not raised.stack_only:
            continue
        if raised.stack_only and _raised_below(case, raised):
            continue
        if in_tracker(raised) or (not raised.frames and _pasted(case, raised.line)):
            # A traceback that only lost its last line was raised: that is no program that stands still.
            strength: Strength = "weak" if raised.cut else "decisive"
            yield Sign(
                strength, "the program was stuck in the tracker's code", (evidence(raised.line),), order=raised.line.order
            )
    yield from _last_words(case)


def _raised_below(case: Case, raised: Raised) -> bool:
    """Whether an exception that the reader does not know by its name stands right below the frames."""
    below = case.log.around(raised.line, after=AFTER)[1:]
    return any(compiled(NAMED).search(line.text) for line in below) or any(
        "raise " in frame.code for frame in raised.frames[-1:]
    )


def _pasted(case: Case, line: Line) -> bool:
    """A notebook's stack, whose frames have another form."""
    return any(
        compiled(r"\bFile |\.py in |\.py:\d+").search(near.text) and compiled(TRACKER).search(near.text)
        for near in case.log.around(line, before=BEFORE)
    )


def _last_words(case: Case) -> Iterator[Sign]:
    lines = [line for line in case.log.lines if line.text.strip()]
    ends = lines[-AT_END:]
    pending = [line for line in ends if any(word in line.lowered for word in WORDS) and compiled(PENDING).search(line.text)]
    pending = [line for line in pending if "Retry(" not in line.text or compiled(HOSTS).search(line.text)]
    if not pending or went_on(case, pending[-1]) or case.log.deaths:
        return
    retried = any("retry attempt failed" in line.lowered for line in case.log.lines)
    own = [raised for raised in case.log.raised if raised.kind and not raised.survivable]
    if any(not (retried and raised.kind in WEB) for raised in own):
        return
    if case.log.finished is not None and all("(success)" in line.lowered for line in pending) and case.exit is None:
        return
    if any(compiled(SETTLED).search(line.text) and line.order > pending[0].order for line in ends):
        return
    says = "the log ends while the tracker waits for its server"
    strength: Strength = "decisive" if retried and not went_on(case, pending[0]) else "strong"
    yield Sign(strength, says, (evidence(pending[0]), evidence(pending[-1])), order=pending[0].order)


def in_config(case: Case) -> Iterator[Sign]:
    """A tracker that talks to a server, as a hypothesis where there is no log."""
    kind = case.facts.get("tracker.kind")
    if (
        not case.log.lines
        and kind is not None
        and str(kind.value) in {"wandb", "mlflow", "comet_ml", "neptune", "clearml", "all"}
    ):
        yield Sign(
            "weak",
            f"metrics go to {kind.value}, which can block a step, an evaluation or the end of the run",
            (kind.evidence,),
        )


WAITED = {
    "server": "has no timeout and waits until the server answers",
    "upload": "waits until the server has everything, forever if it does not answer",
    "thread": "has no timeout and waits forever if its thread or call is stuck on the server",
    "queue": "waits until the queue is empty, which never happens if the server does not answer",
    "full": "waits until the queue has space, which never happens if its thread waits for the server",
    "process": "waits for a program that talks to the server, and has no timeout",
    "poll": "polls repeatedly and never ends if no answer comes",
}

UPLOAD = 60  # seconds that an upload gets where its outcome is used
# What not waiting costs, by what was waited for.
COSTS = {
    "server": "a row that the server does not accept within 10 s is lost",
    "upload": "the tracker uploads in the background and finishes when the run is closed",
    "thread": "it waits at most 10 s; what the thread has not done by then may be lost",
    "poll": "it asks for at most 10 s and continues without the answer",
    "full": "a row that does not fit into the queue is lost",
    "queue": "rows still in the queue at the end are lost if a daemon thread sends them: wait for it there, with a timeout",
}


def in_code(case: Case) -> Iterator[Sign]:
    """A wait without an end between two steps, for a server that is not part of the training."""
    for fact in case.all("code.tracker_wait"):
        strength = _waits(case, fact)
        if strength is not None:
            says = f"training hangs at {fact.value['call']} if the tracker's server is unreachable: it "
            yield Sign(strength, says + WAITED[fact.value["kind"]], (fact.evidence,), fatal=strength != "weak")
    if (ranks(case) or 1) > 1:
        for fact in case.all("code.tracker_by_all"):
            says = f"{ranks(case)} ranks call {fact.value}(), which makes as many runs and server connections"
            yield Sign("weak", says, (fact.evidence, *launched_with(case)), fatal=False)


def _waits(case: Case, fact: Fact) -> Strength | None:
    """How much a wait matters here: nothing is waited for offline, and MLflow without a server writes to the disk."""
    mode = case.facts.get("tracker.mode")
    library = fact.value["library"]
    offline = mode is not None and str(mode.value).lower() in {"offline", "disabled", "dryrun"}
    if offline and (library in {"wandb", "run", "artifact"} or fact.value["refused_offline"]):
        return None
    if library == "mlflow" and not case.all("code.tracker_server") and "environment.MLFLOW_TRACKING_URI" not in case.facts:
        return "weak"
    return "strong"


def in_recorder(case: Case) -> Iterator[Sign]:
    """A hang in the tracker's code, or calls of it that take a good part of the time."""
    found = stall(case)
    if found is not None and found.cause == "tracker/blocked":
        yield Sign(found.strength, found.says, found.evidence, order=order(case))
    yield from _slow_calls(case)


def _slow_calls(case: Case) -> Iterator[Sign]:
    for process in case.flight.ranks if case.flight is not None else ():
        calls = [
            event
            for event in (case.flight.of_kind("tracker") if case.flight is not None else ())
            if event.pid == process.pid and to_float(event.details.get("seconds"), 0.0) > SLOW_CALL
        ]
        spent = sum(to_float(event.details["seconds"], 0.0) for event in calls)
        if calls and spent > SLOW_SHARE * max(1.0, calls[-1].time - process.born):
            says = f"{process.name} spent {took(spent)} in {len(calls)} tracker call(s)"
            yield Sign("weak", says, (calls[-1].evidence,), fatal=False, order=order(case))
            return


def fix(case: Case) -> Iterator[Fix]:
    """An end for each wait, where the code allows; then the general remedies."""
    waits = [fact for fact in case.all("code.tracker_wait") if _waits(case, fact) == "strong"]
    edits = edits_of(waits)
    if edits:
        kinds = dict.fromkeys(str(fact.value["kind"]) for fact in waits if fact.value["edits"])
        costs = [COSTS[kind] for kind in kinds]
        if any(f"timeout={UPLOAD}" in edit.text for edit in edits):
            costs.append(f"code that needs the version waits {UPLOAD} s for it and then skips what needs it")
        why = "training continues unchanged; " + "; ".join(costs)
        yield Fix("Do not wait for the tracker between steps", "exact", why, edits=edits)
    found = stall(case)
    if found is not None and OUTSIDE in found.says:  # a tracker of the program's own
        yield TIME_OUT
        return
    kind = case.facts.get("tracker.kind")
    told = not waits and kind is not None and kind.value == "wandb"
    if not case.before or told or any(_of_wandb(fact) for fact in waits):
        yield from fixes


def _of_wandb(fact: Fact) -> bool:
    """Whether a wait ends when wandb logs offline: a web request or a queue of the program's own does not."""
    return bool(fact.value["kind"] == "upload" or fact.value["library"] == "wandb")


fixes = (
    Fix(
        "Log offline and upload later",
        "exact",
        "training does not change; run `wandb sync` on the folder afterwards. Calls that need the server (restore, "
        "use_artifact, an artifact's wait) raise",
        environment={"WANDB_MODE": "offline"},
        settings={"tracker.mode": "offline"},
    ),
)
experiment = Experiment(
    title="Run past this point with the tracker switched off, and once more with it on",
    change={"environment": {"WANDB_MODE": "disabled"}},
    confirms="without the tracker the next epoch starts and the process exits; with it, it hangs in the tracker's frames",
    refutes="it also hangs without the tracker",
)
