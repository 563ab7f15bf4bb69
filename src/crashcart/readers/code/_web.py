"""Requests to a server that may take for ever: without a time-out of their own, and without one for all.

``requests`` and ``urllib`` wait as long as the server keeps the line open; ``httpx`` gives up after five seconds unless it is
told ``timeout=None``. What an object is, is known from what it was made by: ``_http = requests.Session()``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["WEB", "goes_nowhere", "requests_of"]

WEB = ("requests.post", "requests.put", "requests.get", "requests.patch", "requests.delete", "requests.request", "urllib.request.urlopen", "urlopen",
       "socket.create_connection", "http.client.HTTPConnection", "http.client.HTTPSConnection", "smtplib.SMTP", "smtplib.SMTP_SSL",
       "ftplib.FTP")  # fmt: skip
IMPATIENT = ("httpx.post", "httpx.put", "httpx.patch", "httpx.get", "httpx.request")  # of themselves
SESSIONS = ("requests.Session", "requests.session", "requests.sessions.Session")
VERBS = ("post", "put", "patch", "get", "delete", "request")
CALLED = frozenset({"session", "_session", "http", "client", "_client"})
# How many arguments may come before the time-out's place.
PLACES = {"requests.post": 2, "urlopen": 2, "urllib.request.urlopen": 2, "socket.create_connection": 1, "smtplib.SMTP": 3,
          "smtplib.SMTP_SSL": 3, "ftplib.FTP": 4, "http.client.HTTPConnection": 2, "http.client.HTTPSConnection": 2}  # fmt: skip
STATUS = frozenset(
    {"raise_for_status", "status_code", "ok", "headers", "reason", "close", "elapsed", "text", "read", "status"}
)


def requests_of(program: Program) -> Iterator[tuple[Source, ast.Call]]:
    """Every such request of a program."""
    sessions = set(_sessions(program))
    patient = any("setdefaulttimeout" in source.text for source in program.sources)
    for source in program.sources:
        for call in source.calls(*WEB, *IMPATIENT, *VERBS):
            if _waits(source, call, sessions) and not (patient and not _of_requests(source, call, sessions)):
                yield source, call


def _sessions(program: Program) -> Iterator[str]:
    """The last words of the names that hold a session of ``requests``, unless it gets a time-out for all its requests."""
    for source in program.sources:
        for call in source.calls(*SESSIONS):
            above = parent(call)
            targets = above.targets if isinstance(above, ast.Assign) else []
            if isinstance(above, ast.AnnAssign):
                targets = [above.target]
            if isinstance(above, ast.withitem) and above.optional_vars is not None:
                targets = [above.optional_vars]
            for name in (name_of(one) for one in targets):
                own = name.rpartition(".")[2]
                if f"{own}.request =" not in source.text and "TimeoutAdapter" not in source.text:
                    yield own


def _of_requests(source: Source, call: ast.Call, sessions: set[str]) -> bool:
    return source.called(call.func).startswith("requests.") or _owner(source, call) in sessions


def _owner(source: Source, call: ast.Call) -> str:
    words = source.called(call.func).split(".")
    return words[-2] if len(words) > 1 else ""


def _waits(source: Source, call: ast.Call, sessions: set[str]) -> bool:
    timeout, name = keyword(call, "timeout"), source.called(call.func)
    endless = isinstance(timeout, ast.Constant) and timeout.value is None
    if (timeout is not None and not endless) or any(one.arg is None for one in call.keywords):
        return False
    if name in IMPATIENT:
        return endless
    if name in SESSIONS or name.startswith(tuple(f"{one}." for one in SESSIONS)):
        return name.rpartition(".")[2] in VERBS
    if name.rpartition(".")[2] in VERBS and name not in WEB:
        owner = _owner(source, call)
        sends = any(one.arg in {"json", "data", "files"} for one in call.keywords)
        return owner in sessions or (
            owner.lower() in CALLED and sends and name.rpartition(".")[2] in {"post", "put", "patch"}
        )
    if name.startswith("socket.") and "settimeout" in source.text:
        return False
    return len(call.args) <= PLACES.get(name, len(call.args))


def goes_nowhere(call: ast.Call, home: ast.AST) -> bool:
    """Whether nothing but the state of an answer is looked at: then something was told, not asked."""
    above = parent(call)
    if isinstance(above, ast.Expr):
        return True
    if isinstance(above, ast.Attribute):
        return above.attr in {"raise_for_status", "close"}
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    if isinstance(above, ast.withitem):
        target = above.optional_vars
    if not isinstance(target, ast.Name):
        return False
    uses = [
        one for one in ast.walk(home) if isinstance(one, ast.Name) and one.id == target.id and isinstance(one.ctx, ast.Load)
    ]
    return all(isinstance(at := parent(one), ast.Attribute) and at.attr in STATUS for one in uses)
