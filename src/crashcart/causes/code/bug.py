"""An exception in the user's or a library's code that no other cause explains.

What happens: a process raises and nobody catches it.

Why: an ordinary programming error: a missing key, an attribute of None, a wrong argument, an assertion.

How it shows: a traceback. The last frame in your own files is mostly the place to look at; under several ranks the first
rank that raised counts, not the launcher's table.

What to do: read the innermost frame of your own code; reproduce it on one process with ``CUDA_VISIBLE_DEVICES`` and
``num_workers=0`` so that nothing hides the place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import strong
from crashcart.causes.code._echoes import own
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

title = "An exception in the program's own code or a library"
breadth = 2
alike = ("code/version", "config/missing-or-wrong")
phrases = (strong("exception in main training loop", says="the training loop raised"),)
LIBRARIES = ("site-packages", "dist-packages", "lib/python", "/envs/", "<frozen", "<string>")


def in_log(case: Case) -> Iterator[Sign]:
    """The first exception that nobody caught and that is no echo of another process."""
    for raised in own(case):
        place = _own_frame(raised)
        says = f"{raised.kind} was raised" + (f" at {place}" if place else "")
        yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
        return


def _own_frame(raised: Raised) -> str:
    """The innermost frame of the user's own files; of a library where there is none."""
    own_frames = [frame for frame in raised.frames if not any(part in frame.file for part in LIBRARIES)]
    last = (own_frames or list(raised.frames))[-1:]
    return f"{last[0].file}:{last[0].line} in {last[0].function}" if last else ""


fixes = (Fix("Look at the innermost frame of your own code", "by-hand", "the traceback above names file and line"),)
experiment = Experiment(
    title="Run one process with num_workers=0 on the batch where it died",
    start_from="the newest whole checkpoint",
    stop_after="the step of death",
    confirms="the same exception at the same place",
    refutes="it passes alone: then it needs several ranks or workers, look at what they share",
)
