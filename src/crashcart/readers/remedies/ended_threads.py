"""A thread that ended without a word, while another waits for it: who answers the wait, what runs that, and how it can have ended.

    self.jobs.put(item)                     where the program stands
    def run(self):                          what takes from that queue; no thread was in it any more
        while True:
            item = self.jobs.get()
            try: draw(item)
            except Exception: return        a handler that ends it: `pass`, and it goes on to its next item
    pool.submit(self.fill)                  what it raises stays in a future at which nobody looks: the items go into ``try``

Nothing is said where any thread of the hang stands in such a function, or where the recording has the exception that ended one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from crashcart.causes.hang._recorded import ENDED_THREAD
from crashcart.flight import threads_of
from crashcart.log import evidence
from crashcart.model import Fact
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parents
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.remedies.guarded_items import guarded, takes_item

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Evidence
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("hang/dead-thread", "hang/exit")
_ANSWERS = {
    "put": frozenset({"get", "get_nowait"}),
    "get": frozenset({"put", "put_nowait"}),
    "join": frozenset({"task_done"}),
    "wait": frozenset({"set", "notify", "notify_all"}),
}
_SUBMITS = {"submit": 0, "run_in_executor": 1}
_PROCESSES = ("Process", "ProcessPoolExecutor")  # the recording has their ends
_LOOKED_AT = (".result(", ".exception(", "add_done_callback", "as_completed", "await ", "gather(")
_DEEPEST = 4
_LOOPS = (ast.For, ast.While)
_GAPS = Pattern(r"%[-+ #0]{0,5}\d{0,5}(?:\.\d{1,5})?[a-zA-Z%]|\{[^{}]{0,100}\}")
_SHORTEST = 6  # letters of a message that are looked for in the log


class _Thread(NamedTuple):
    """A function that runs in a thread of its own, and the line that starts it."""

    source: Source
    function: Function
    start: ast.expr | ast.stmt
    is_future: bool


def look(scene: Scene) -> Iterator[Fact]:
    """The threads that answer what a process waits for, where none of them is left."""
    if scene.thread_raises:
        return
    for frames in scene.stacks:
        place = scene.at(frames[0] if frames else None)
        if place is None or hasattr(place[1], "body"):
            continue
        for wait in (node for node in ast.walk(place[1]) if isinstance(node, ast.Call)):
            threads = answering_threads(scene, wait)
            if threads and not any(_is_running(scene, thread) for thread in threads):
                yield from _ended(scene, threads[0], wait)
                return


def answering_threads(scene: Scene, wait: ast.Call) -> list[_Thread]:
    """The functions with a thread of their own that do what a wait is for: take from its queue, put into it, set its event."""
    if not isinstance(wait.func, ast.Attribute):
        return []
    answers, waited = _ANSWERS.get(wait.func.attr, frozenset()), name_of(wait.func.value).rpartition(".")[2]
    threads = [thread for source in scene.sources for thread in _threads(scene, source)] if answers and waited else []
    return [thread for thread in threads if _answer(scene, thread, answers, waited) is not None]


def _threads(scene: Scene, source: Source) -> Iterator[_Thread]:
    for call in source.nodes(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else name_of(call.func)
        target = keyword(call, "target") if name not in _SUBMITS else keyword(call, "fn", _SUBMITS[name])
        found = _function(scene, source, target) if target is not None else None
        is_process = name.endswith(_PROCESSES[0]) or (name in _SUBMITS and _PROCESSES[1] in source.text)
        if found is not None and not is_process:
            yield _Thread(*found, call, name in _SUBMITS)
    for owner in source.nodes(ast.ClassDef):
        if any(name_of(base).endswith("Thread") for base in owner.bases):
            yield from (_Thread(source, each, each, False) for each in owner.body if isinstance(each, FUNCTIONS) and each.name == "run")  # fmt: skip


def _function(scene: Scene, source: Source, node: ast.expr) -> tuple[Source, Function] | None:
    """The function of the program that a name stands for: of the same file, else the only one."""
    name = name_of(node).rpartition(".")[2]
    for sources in ([source], scene.sources):
        named = [(each, function) for each in sources for function in each.functions if function.name == name]
        if len(named) == 1:
            return named[0]
    return None


def _answer(scene: Scene, thread: _Thread, answers: frozenset[str], waited: str) -> tuple[Source, ast.AST] | None:
    """Where a thread's function, or one that it calls, answers; it may know the object by the name of a parameter."""
    waiting: list[tuple[Source, Function, int]] = [(thread.source, thread.function, 0)]
    names, seen = {waited, *_handed_over(thread, waited)}, set[int]()
    while waiting:
        source, function, depth = waiting.pop(0)
        seen.add(id(function))
        found = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and node.attr in answers and name_of(node.value).rpartition(".")[2] in names
        ]
        if found:  # what answers again and again before what answers at the end
            return source, next(
                (node for node in found if source.around(node, *_LOOPS, *FUNCTIONS) is not function), found[0]
            )
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            called = _function(scene, source, call.func) if depth < _DEEPEST else None
            if called is not None and id(called[1]) not in seen:
                waiting.append((*called, depth + 1))
    return None


def _handed_over(thread: _Thread, name: str) -> list[str]:
    """The parameters that the start of a thread gives an object to."""
    if not isinstance(thread.start, ast.Call):
        return []
    given = keyword(thread.start, "args")
    values = given.elts if isinstance(given, (ast.Tuple, ast.List)) else thread.start.args[1:] if thread.is_future else []
    parameters = [each.arg for each in thread.function.args.args if each.arg != "self"]
    return [own for own, value in zip(parameters, values, strict=False) if name_of(value).rpartition(".")[2] == name]


def _is_running(scene: Scene, thread: _Thread) -> bool:
    """Whether any thread of any process stood in this function."""
    first, last = thread.function.lineno, thread.function.end_lineno or thread.function.lineno
    frames = (frame for text in scene.stack_texts for _, frames in threads_of(text) for frame in frames)
    return any(first <= frame.line <= last and scene.source(frame.file) is thread.source for frame in frames)


def _ended(scene: Scene, thread: _Thread, wait: ast.Call) -> Iterator[Fact]:
    source, function = thread.source, thread.function
    name = _named(source, function)
    edits: list[Edit] = []
    shown: list[Evidence] = []
    leaving = _leaving_handler(function)
    if leaving is not None:
        handler, leave = leaving
        word = "return" if isinstance(leave, ast.Return) else "break"
        how, place = f"this `{word}` ends the thread in {name} after an exception that it caught", source.evidence(leave)
        shown = _printed(scene, source, handler)
        edits, title = _going_on(source, handler, leave), "Go on with the next item after one that fails"
        why = f"this `{word}` ends the only thread that answers; whoever waits for it then waits forever. What it prints names the item to look at"
    elif thread.is_future and not any(word in source.text for word in _LOOKED_AT):
        how = f"an exception that ends {name} is kept in the future of this call, and nobody looks at it"
        place = source.evidence(thread.start)
        edits, title = _guarded(scene, thread, wait), "Print what the thread raises, and go on with the next item"
        why = f"an exception in `{function.name}` ends it, and stays unseen in the future of `submit`; the traceback that is now printed shows what to correct"
    else:
        end, shown = _return(scene, source, function)
        how = f"no thread is in {name} any more: it ended without an exception, or was not started"
        how = f"this ends the thread in {name}; no thread is in it any more" if end is not None else how
        place = source.evidence(end if end is not None else function)
    yield Fact(ENDED_THREAD, {"function": name, "how": how, "shown": shown}, place, "code")
    if edits:
        yield from remedy(_CAUSES, title, "changes-training", why, edits, place)


def _named(source: Source, function: Function) -> str:
    owner = source.around(function, ast.ClassDef)
    return f"{owner.name}.{function.name}" if owner is not None else function.name


def _leaving_handler(function: Function) -> tuple[ast.ExceptHandler, ast.Return | ast.Break] | None:
    """A handler within the loop of a thread that ends with leaving it."""
    for node in ast.walk(function):
        handlers = node.handlers if isinstance(node, ast.Try) else ()
        loop = next((above for above in parents(node) if isinstance(above, (*_LOOPS, *FUNCTIONS))), None)
        for handler in handlers if isinstance(loop, _LOOPS) else ():
            last = handler.body[-1]
            if isinstance(last, (ast.Return, ast.Break)) and not _is_expected(handler):
                return handler, last
    return None


def _return(scene: Scene, source: Source, function: Function) -> tuple[ast.Return | None, list[Evidence]]:
    """Where a function with a loop is left from within it: where the words that are printed before stand in the log, else the only place."""
    leaves = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and isinstance(source.around(node, *_LOOPS, *FUNCTIONS), _LOOPS)
    ]
    for leave in leaves:
        above = getattr(leave, "parent", None)
        shown = _printed(scene, source, above) if isinstance(above, ast.If) else []
        if shown:
            return leave, shown
    return (leaves[0] if len(leaves) == 1 else None), []


def _is_expected(handler: ast.ExceptHandler) -> bool:
    """Whether what is caught is how such a loop is meant to end."""
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    return any(name in caught for name in ("Empty", "Full", "StopIteration", "EOFError", "KeyboardInterrupt", "ShutDown", "Cancelled"))  # fmt: skip


def _printed(scene: Scene, source: Source, block: ast.ExceptHandler | ast.If) -> list[Evidence]:
    """The last line of the log that has the words of a block's longest message."""
    texts = [
        node.value
        for each in block.body
        for node in ast.walk(each)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    pieces = [piece.strip() for text in texts for piece in _GAPS.sub("\n", text).split("\n")]
    words = max(pieces, key=len, default="").lower()
    if len(words) < _SHORTEST:
        return []
    return [evidence(line) for line in scene.case.log.lines if words in line.lowered and source.path not in line.text][-1:]


def _going_on(source: Source, handler: ast.ExceptHandler, leave: ast.Return | ast.Break) -> list[Edit]:
    """The handler without its end, where the rest of the loop can do without what failed; else on to the next round."""
    attempt = getattr(handler, "parent", None)
    loop = getattr(attempt, "parent", None)
    if not isinstance(attempt, ast.Try) or not isinstance(loop, _LOOPS) or attempt not in loop.body:
        return []
    rest = loop.body[loop.body.index(attempt) + 1 :]
    if not _names(attempt.body, ast.Store) & _names(rest, ast.Load):
        return [replaced(source, leave, "pass")]
    counts = any(isinstance(node, ast.Attribute) and node.attr == "task_done" for each in rest for node in ast.walk(each))
    return [] if counts else [replaced(source, leave, "continue")]


def _names(statements: list[ast.stmt], context: type[ast.expr_context]) -> set[str]:
    nodes = (node for each in statements for node in ast.walk(each))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def _guarded(scene: Scene, thread: _Thread, wait: ast.Call) -> list[Edit]:
    """The work on one item in a ``try``, where the thread has a loop that had worked before."""
    assert isinstance(wait.func, ast.Attribute)  # noqa: S101 - else it is no wait
    answer = _answer(scene, thread, _ANSWERS[wait.func.attr], name_of(wait.func.value).rpartition(".")[2])
    loop = answer[0].around(answer[1], ast.For, ast.While) if answer is not None else None
    if answer is None or not isinstance(loop, _LOOPS) or not scene.has_trained:
        return []
    waits = [place for place, each in enumerate(loop.body) if isinstance(loop, ast.While) and takes_item(each)]
    if isinstance(loop, ast.While) and not waits:
        return []
    return guarded(answer[0], loop.body[waits[0] + 1 if waits else 0 :])
