"""The experiment tracker raised an exception that ended the run.

What happens: training was fine; a call that only logs failed, and nobody caught it.

Why: no login, no permission or no network at the start; a server that answers with an error for longer than the client
retries; a service process that died; a parameter that was logged before with another value, or is too long; a folder that
is gone.

How it shows: ``wandb.errors.CommError``, ``UsageError``, ``ServiceStartTimeoutError``, ``MailboxClosedError``;
``MlflowException`` or ``RestException``; an exception whose innermost frames are the tracker's; ``BrokenPipeError`` in
its threads, and then no steps.

What to do: log in or log offline (``WANDB_MODE=offline``), catch the tracker's errors around the call, give each attempt
its own run id. Logging must never be able to end training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes.hang._recorded import TRACKERS as RECORDED
from crashcart.causes.tracker._frames import HOSTS, in_tracker, sends_metrics, went_on
from crashcart.deaths import finished, first, order
from crashcart.flight import during
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact, Strength

title = "The experiment tracker raised an exception that ended the run"
piece = "nonblocking"
alike = ("tracker/blocked", "tracker/rows-lost")
phrases = (
    strong(
        "mlflow.utils.rest_utils", "/api/2.0/mlflow", "mlflow.exceptions.restexception", "api.wandb.ai/graphql",
        says="the tracking server rejected a request",
        pattern=r"failed with (?:code|error)|Error|exceptions", unless=r"retrying up to [1-9]",
    ),
    decisive(
        "run initialization has timed out", "api_key not configured", "servicestarttimeouterror", "servicestartprocesserror",
        "wandbservicenotownederror", "wandbserviceconnectionerror", "mailboxclosederror", "wandb service process exited",
        "wandb backend process has shutdown", "wandb service is not running", "problem starting the wandb service",
        "couldn't communicate with backend after", "timed out waiting for response from wandb", "unable to connect to clearml",
        "error communicating with wandb process", "failed to start the wandb", "wandb-core exited with code",
        says="the tracker could not start or lost its service",
    ),
    decisive("wandb.errors", "wandb.sdk", "commerror:", "wandb.apis",
             pattern=r"(?:^|[\s:\]])(?:wandb\.[\w.]+|)(?:CommError|UsageError|AuthenticationError|MailboxError|Error|"
             r"WandbException)\b: ?\S",
             unless=r"File \"|import ", says="the tracker raised an exception"),
    decisive("mlflowexception:", "restexception:", "mlflow.exceptions.", unless=r"import |async_logging",
             says="the tracking server rejected a call"),
    decisive("clearml.backend", "swanlab.", "comet_ml.", "neptune.", "trackio.", "dvclive.", says="the tracker raised an exception",
             pattern=r"^(?:clearml|swanlab|comet_ml|neptune|trackio|dvclive)(?:\.\w+)+(?:Error|Exception|InvalidAPIKey)\b: \S"),
    decisive("neptune.exceptions", "neptune.new.exceptions", "cometrestapiexception", "comet_ml.exceptions",
             "clearml.errors",
             unless=r"import ", says="the tracker raised an exception"),
    weak("error while calling w&b api", "wandb: error", says="the tracker reports an error", fatal=False),
    weak("netstatthr", "intmsgthr", "chkstopthr", "event_file_writer", "already been logged",
         says="the tracker's threads are on a stack",
         fatal=False),
)  # fmt: skip
REFUSED = r"W&B API|permission|api.?key|not found|denied|abnormal|login|timed? ?out|invalid"
HARMLESS = r"failed to (?:sample|serialize) metric|Dropped streaming|Failed to detect|Unable to log|resolved|retry"
OTHER_CAUSE = r"No space left|quota|out of memory|Too many open files|No module named|cannot import|histogram is empty"
INNERMOST = 12  # frames: below the tracker's are those of web libraries
WEB = frozenset(
    {
        "ConnectionError",
        "HTTPError",
        "ReadTimeout",
        "ConnectTimeout",
        "ProtocolError",
        "MaxRetryError",
        "SSLError",
        "ProxyError",
    }
)
# What the standard library raises for a server that is away.
NETWORK = frozenset({
    "URLError", "ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError", "TimeoutError",
    "timeout", "gaierror", "RemoteDisconnected", "IncompleteRead",
})  # fmt: skip
stacks = (
    Stack(
        r"/(?:wandb|mlflow|comet_ml|neptune|clearml|swanlab|aim|trackio)/|torch/utils/tensorboard/|/tensorboardX?/",
        "the traceback ends in an experiment tracker",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """An exception that was raised in the tracker's own code, and whether the program got over it."""
    for raised in case.log.raised:
        if not raised.kind or raised.kind in {"KeyboardInterrupt", "ModuleNotFoundError", "ImportError"}:
            continue
        to_server = raised.kind in WEB and (compiled(HOSTS).search(raised.message) or sends_metrics(raised))
        theirs = in_tracker(raised) or to_server
        if not theirs or compiled(OTHER_CAUSE).search(raised.message):
            continue
        if raised.survivable:
            over = went_on(case, raised.line) or case.log.finished is not None
            says = "a thread of the tracker died" + (", and training continued" if over else ", and no step followed")
            strength: Strength = "weak" if over else "strong"
            yield Sign(strength, says, (evidence(raised.line),), fatal=not over, order=raised.line.order, survived=over)
        else:
            says = f"{raised.kind} was raised in the tracker's code"
            yield Sign("decisive", says, (evidence(raised.line),), order=raised.line.order)
    yield from _reported(case)


def _reported(case: Case) -> Iterator[Sign]:
    """An error that the tracker prints itself, where nothing follows."""
    for line in case.log.index.saying(("wandb: error",)):
        if compiled(REFUSED).search(line.text) and not compiled(HARMLESS).search(line.text):
            last = not went_on(case, line) and case.log.finished is None
            yield Sign(
                "strong" if last else "weak", "the tracker reports an error", (evidence(line),), fatal=last, order=line.order
            )
            return


def in_code(case: Case) -> Iterator[Sign]:
    """A wait for an upload in a run that uploads nothing: wandb refuses it offline."""
    mode = case.facts.get("tracker.mode")
    if mode is None or str(mode.value).lower() not in {"offline", "dryrun"}:
        return
    for fact in _refused(case):
        says = f"{fact.value['call']}() raises if wandb is offline: nothing is uploaded, so there is nothing to wait for"
        yield Sign("decisive" if fact.value["sure"] else "strong", says, (fact.evidence, mode.evidence))


def _refused(case: Case) -> list[Fact]:
    return [fact for fact in case.all("code.tracker_wait") if fact.value["refused_offline"]]


def fix(case: Case) -> Iterator[Fix]:
    """Without the wait, where the code shows one that is refused; then the general remedies."""
    edits = edits_of(_refused(case))
    if edits:
        why = "the artifact is stored with the run and uploaded by `wandb sync`"
        yield Fix("Do not wait for an upload that happens later", "exact", why, edits=edits)
    if case.all("code.sends_metrics") and not case.before:  # a tracker of the program's own
        yield fixes[-1]
        return
    mode = case.facts.get("tracker.mode")
    if not case.before:
        is_offline = mode is not None and str(mode.value).lower() in {"offline", "dryrun", "disabled"}
        yield from (fix for fix in fixes if not (is_offline and "tracker.mode" in fix.settings))


def in_recorder(case: Case) -> Iterator[Sign]:
    """An uncaught exception of the main thread that came up in the tracker's code, or where metrics are sent over a network."""
    leader = first(case)
    kind = (
        str(leader.raised.details.get("type", "")).rpartition(".")[2]
        if leader is not None and leader.raised is not None
        else ""
    )
    for fact in case.all("code.sends_metrics") if kind in WEB | NETWORK else ():
        says = f"{kind} was raised where the program sends its metrics, and it was not caught"
        shown = leader.evidence if leader is not None else fact.evidence
        yield Sign("decisive", says, (shown, fact.evidence), order=order(case))
    for event in case.flight.of_kind("exception") if case.flight is not None else ():
        frames = [str(frame) for frame in event.details.get("frames") or ()]
        said = f"{event.details.get('message')} {' '.join(str(one) for one in event.details.get('because') or ())}"
        if not any(compiled(RECORDED).search(frame) for frame in frames[-INNERMOST:]) or compiled(OTHER_CAUSE).search(said):
            continue
        kind = str(event.details.get("type", ""))
        if kind in {"KeyboardInterrupt", "ModuleNotFoundError", "ImportError"} or finished(case):
            continue
        main = event.details.get("thread") == "MainThread"
        says = f"{kind} was raised in the tracker's code {during(event.details.get('phase'))}"
        yield Sign("decisive" if main else "weak", says, (event.evidence,), fatal=main, order=order(case))
        return


fixes = (
    Fix(
        "Log offline and upload later",
        "exact",
        "without the server nothing can fail here; sync the folder afterwards",
        environment={"WANDB_MODE": "offline"},
        settings={"tracker.mode": "offline"},
    ),
    Fix(
        "Catch the tracker's errors", "by-hand", "wrap log calls so that an exception is printed once and training continues"
    ),
)
experiment = Experiment(
    title="Run the same command with the tracker disabled",
    change={"environment": {"WANDB_MODE": "disabled", "MLFLOW_TRACKING_URI": "file:./mlruns"}},
    confirms="it gets past the point where it failed",
    refutes="it fails there with another exception",
)
