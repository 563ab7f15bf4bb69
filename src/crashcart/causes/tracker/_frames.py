"""Whose code a stack ended in: the tracker's own, or something below it that only carries bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.places import is_own

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.log import Line, Raised

TRACKER = (
    r"[/\\](?:wandb|mlflow|tensorboardX?|comet_ml|neptune|clearml|swanlab|trackio|aim|dvclive)[/\\]|"
    r"loggers[/\\](?:wandb|mlflow|mlf?ow_logger|tensorboard|comet|neptune)|torch[/\\]utils[/\\]tensorboard"
)
BELOW = (
    r"[/\\](?:requests|urllib3|http|tenacity|backoff|retrying|botocore|boto3|google|grpc|tensorflow_stub|gql)[/\\]|"
    r"lib[/\\]python[\d.]+[/\\](?!site-packages|dist-packages)|^<|[/\\](?:threading|queue|socket|ssl|subprocess|"
    r"contextlib|functools)\.py"
)
OWN_TRACKER = r"track|logger|board\b|metrics|monitor|telemetry"
HOSTS = r"wandb\.ai|/api/2\.0/(?:preview/)?mlflow|mlflow|comet\.(?:ml|com)|neptune\.ai|clear\.ml|swanlab"


def in_tracker(raised: Raised) -> bool:
    """Whether the innermost frame that is not plumbing belongs to a tracker."""
    frames = raised.frames if not raised.stack_only or _outermost_first(raised) else tuple(reversed(raised.frames))
    for frame in reversed(frames):
        if compiled(TRACKER).search(frame.file):
            return True
        if not compiled(BELOW).search(frame.file):
            return False
    return False


def sends_metrics(raised: Raised) -> bool:
    """Whether the program's own code for a tracker was at work: its innermost frame is in a file or function called so."""
    own = [frame for frame in raised.frames if is_own(frame.file)]
    return bool(own) and is_own_tracker(own[-1].file, own[-1].function)


def is_own_tracker(file: str, function: str) -> bool:
    """Whether a file or function of the program is called after a tracker."""
    return compiled(OWN_TRACKER).search(f"{file.rpartition('/')[2]} {function}") is not None


def _outermost_first(raised: Raised) -> bool:
    return raised.frames[0].function in {"<module>", "_bootstrap", "_bootstrap_inner", "_run_module_as_main"}


def went_on(case: Case, line: Line) -> bool:
    """Whether step lines follow: then the program got over it."""
    return any(metric.line.order > line.order and metric.step is not None for metric in case.log.metrics)
