"""Our own errors: counted in the page, told once for each place, never raised."""

from __future__ import annotations

import sys

from . import page

_told: set[str] = set()


def ours(place: str) -> None:
    """Take note of the error that is being handled; called in the `except` of everything that runs in the job."""
    try:
        page.here.numbers[page.OWN_ERRORS] += 1
        if place in _told or len(_told) > 100:
            return
        _told.add(place)
        kind, error, trace = sys.exc_info()
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else "%s:%d" % (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        from . import events

        name = "" if kind is None else kind.__name__
        events.write("error", place=place, type=name, message=str(error)[:500], where=where)
    except Exception:  # not even this may be raised
        pass


page.after_fork.append(_told.clear)
