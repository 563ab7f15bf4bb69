"""A request without a time-out to somebody who does not answer, in a run that could go on without the answer.

    self.session.post(url, data=file)       timeout=10, and the failure goes to the handler that is there,
    board.picture(name, text)               else the call is left out with a line that says so: its result is not used

The wait is the line in which the process stood. Where the answer is used, or the handler would end the program, nothing is offered.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import line_after, own_lines
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._left_out import left_out, stands_alone
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("tracker/blocked", "hang/lock-or-io", "data/download", "hang/exit")
_SECONDS = 10
_REQUESTS = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request"})
_SOCKET_WAITS = frozenset({"recv", "recv_into", "recvfrom", "accept", "connect", "sendall", "readline", "read", "makefile"})
_CLIENTS = ("requests", "httpx")
_TIMED = ("urllib.request.urlopen", "socket.create_connection", "http.client.HTTPConnection", "http.client.HTTPSConnection")
_CATCHING = frozenset({
    "Exception", "BaseException", "OSError", "IOError", "EnvironmentError", "TimeoutError", "socket.timeout", "socket.error",
    "requests.RequestException", "requests.exceptions.RequestException", "requests.Timeout", "requests.exceptions.Timeout",
    "requests.ReadTimeout", "requests.exceptions.ReadTimeout", "httpx.HTTPError", "httpx.TimeoutException", "httpx.RequestError",
    "urllib.error.URLError",
})  # fmt: skip
_ENDING = frozenset({"sys.exit", "os._exit", "exit", "quit", "os.abort"})


def look(scene: Scene) -> Iterator[Fact]:
    """The innermost own line of the first process that waits for an answer."""
    for frames in scene.stacks:
        for number, spot in enumerate(frames):
            source = scene.source(spot.file)
            statement = statement_at(source, spot.line) if source is not None else None
            if source is None or statement is None:
                break
            edits = _limited(source, statement)
            if not edits:
                continue
            rest = [
                (other, node)
                for each in frames[number:]
                if (other := scene.source(each.file)) and (node := statement_at(other, each.line))
            ]
            handled = _handled(rest)
            if handled is None:
                return
            title = f"Give this wait a timeout of {_SECONDS} seconds"
            why = (
                "the existing handler then catches the timeout"
                if not handled
                else "without an answer it is skipped, and a line in the log says so; the training does not use it"
            )
            yield from remedy(_CAUSES, title, "exact", why, [*edits, *handled], source.evidence(statement))
            return


def _limited(source: Source, statement: ast.stmt) -> list[Edit]:
    """The time-out for what a statement waits for."""
    heads = statement.items if isinstance(statement, ast.With) else [statement] if not _is_compound(statement) else []
    calls = [node for head in heads for node in ast.walk(head) if isinstance(node, ast.Call)]
    for call in calls:
        name, method = source.called(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
        is_request = method in _REQUESTS and (name.startswith(_CLIENTS) or _is_session(source, call))
        if is_request or name in _TIMED:
            if any(keyword.arg in {"timeout", None} for keyword in call.keywords):
                return []
            return [with_argument(source, call, f"timeout={_SECONDS}")]
    if any(isinstance(call.func, ast.Attribute) and call.func.attr in _SOCKET_WAITS for call in calls):
        return _limited_socket(source)
    return []


def _is_compound(statement: ast.stmt) -> bool:
    return hasattr(statement, "body")


def _is_session(source: Source, call: ast.Call) -> bool:
    """Whether a call goes to a session that the file makes: ``self.session = requests.Session()``."""
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return any(
        isinstance(assign.value, ast.Call)
        and source.called(assign.value.func).startswith(_CLIENTS)
        and any(ast.unparse(target) == owner for target in assign.targets)
        for assign in source.nodes(ast.Assign)
    )


def with_argument(source: Source, call: ast.Call, text: str) -> Edit:
    """A call with one more argument at its end."""
    end = len(source.text[: source.span(call).end - 1].rstrip())
    comma = {",": " ", "(": ""}.get(source.text[end - 1], ", ")
    return Edit(Span(source.path, end, end, call.end_lineno or call.lineno), f"{comma}{text}")


def _limited_socket(source: Source) -> list[Edit]:
    """The one socket that the file makes, with a limit for all that is done with it."""
    made = [
        assign
        for assign in source.nodes(ast.Assign)
        if isinstance(assign.value, ast.Call) and source.called(assign.value.func) == "socket.socket"
    ]
    if len(made) != 1 or len(made[0].targets) != 1 or not own_lines(source, made[0]):
        return []
    name = source.written(made[0].targets[0])
    if any(isinstance(node, ast.Attribute) and node.attr == "settimeout" for node in source.nodes(ast.Attribute)):
        return []
    return [line_after(source, made[0], f"{name}.settimeout({_SECONDS})")]


def _handled(frames: list[tuple[Source, ast.stmt]]) -> list[Edit] | None:
    """What has to be written so that a wait that is over harms nobody: nothing where it is caught, else a handler; None where neither fits."""
    for source, statement in frames:
        function = source.around(statement, *FUNCTIONS)
        for above in source.parents(statement):
            if above is function:
                break
            if (
                isinstance(above, ast.Try)
                and _is_within(above.body, statement)
                and any(_catches(source, each) for each in above.handlers)
            ):
                return [] if not any(_ends(source, each) for each in above.handlers) else None
        if stands_alone(source, statement):
            return left_out(source, statement, "OSError", "  # also a time-out")
        in_loop = source.around(statement, ast.For, ast.While)
        if in_loop is not None and source.around(in_loop, *FUNCTIONS) is function:
            return None  # the answer is used in this round
    return None


def _is_within(body: list[ast.stmt], statement: ast.stmt) -> bool:
    return any(node is statement for each in body for node in ast.walk(each))


def _catches(source: Source, handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or source.called(kind) in _CATCHING for kind in kinds)


def _ends(source: Source, handler: ast.ExceptHandler) -> bool:
    """Whether a handler gives the program up."""
    nodes = [node for statement in handler.body for node in ast.walk(statement)]
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and source.called(node.func) in _ENDING) for node in nodes
    )
