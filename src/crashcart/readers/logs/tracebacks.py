"""Exceptions and stacks as Python, rich, faulthandler and py-spy print them, also in pieces and in the middle of other text.

A complete block::

    Traceback (most recent call last):
      File "train.py", line 609, in <module>
        train(hyp, opt)
    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ...

People paste less: the first frames cut off, two ranks mixed, the last line missing. So frames are collected until a line
that names an exception; such a line alone counts too; frames without one are a stack (``stack_only``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.log import Frame, Line, Raised
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.readers.logs.progress import phase_of_frames, phase_of_line

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find_raised", "goes_on_with_traceback"]

_FRAME = Pattern(r'File "(?P<file>[^"]+)", line (?P<line>\d{1,9}),? in (?P<function>[\w<>.]+)')
_RICH_FRAME = Pattern(r"^\s*(?P<file>/?[\w./\-~<>]+\.py):(?P<line>\d{1,9}) in (?P<function>[\w<>]+)")
_SPY_FRAME = Pattern(r"^\s+(?P<function>[\w<>.]+) \((?P<file>[^():]+):(?P<line>\d{1,9})\)\s*$")
_GDB_FRAME = Pattern(
    r"#\d+ .{0,60}Frame 0x[0-9a-f]+, for file (?P<file>[^,]+), line (?P<line>\d{1,9}), in (?P<function>[\w<>.]+)"
)
_NOTEBOOK_FRAME = Pattern(
    r"^(?:File )?(?P<file>[~/\w.\-]+\.py|<ipython-input[^>]*>|Cell In\s?\[?\d+\]?)(?::(?P<line>\d{1,9}))?,?(?: line \d+)?,? in (?P<function>[\w<>]+)\("
)
_KIND = Pattern(
    r"(?:^|[\s\]:'\"(>│*])(?P<kind>(?:[a-zA-Z_]\w{0,40}\.){0,8}"
    r"(?:[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Timeout|TimeOut|Failure|Fault|NotFound|Exceeded|Missing)"
    r"|StopIteration|SystemExit|BadZipFile|queue\.Empty|queue\.Full|NotImplemented\w*|errors?\.Error|GatedRepo\w*|ConfigAttribute\w*|error|timeout)(?:\[\w+\])?)"
    r"(?:(?P<colon>:)\s?(?P<message>.*)|\s*$)"
)
_ERROR_WORD = Pattern(r"^(?:[\w.]+\.)?error$")
_IGNORED = Pattern(
    r"Exception ignored in|Exception in thread|Error in atexit|Exception ignored on|in callback|--- Logging error|"
    r"Task exception was never|Exception while exporting|Error in sys\.exc",
    re.IGNORECASE,
    needs=("exception ignored", "in thread", "atexit", "callback", "logging error", "never", "exporting", "sys.exc"),
)
_WENT_ON = Pattern(
    r"\b(?:retry|retrying|retries left|will retry|re-?try(?:ing)? with|skipp?(?:ing|ed)(?!\s*[=:]|\s+iterations|\s+step)|ignor(?:e|ed|ing)|recover(?:ed|ing)|"
    r"falling back|fall back|fallback|continuing|resum(?:e|ing) (?:training|with)|caught|handled|reducing|reduced|halving|"
    r"decreasing|shrinking)\b",
    re.IGNORECASE,
    needs=(
        "retr",
        "re-tr",
        "skip",
        "ignor",
        "recover",
        "fall",
        "continuing",
        "resum",
        "caught",
        "handled",
        "reduc",
        "halving",
        "decreas",
        "shrink",
    ),
)
_WARNED = Pattern(r"(?<!NCCL )(?<!=)\bWARN(?:ING)?\b", needs=("warn",))
_HEADER = Pattern(
    r"^\[?\d{4}[-/]\d\d[-/]\d\d|^\[[EWI]\d{0,4}[ :]|^[EWI]\d{4} |^(?:INFO|WARNING|ERROR|DEBUG)\b|^\S+:\d+:\d+ \[\d+\] NCCL"
)
_INNERMOST_FIRST = Pattern(
    r"\(most recent call first\)|^Timeout \(\d+:\d+:\d+|^Thread (?:0x)?[0-9a-fA-F]+ ?(?:\(|\[|:)|^Current thread",
    needs=("thread", "timeout", "call first"),
)
_TROUBLE = Pattern(r"error|exception|out of memory|\boom\b|fail|caught", re.IGNORECASE)
_MOST_FRAMES = 80
_MESSAGE_LINES = 14
_PHASE_LINES = 80
_LINES_OF_A_FRAME = 4  # its place, its code, a row of carets, and one more for a long call


def find_raised(lines: Sequence[Line]) -> list[Raised]:
    """Every exception in the kept lines, in order."""
    return _Finder(lines).run()


def goes_on_with_traceback(before: Sequence[Line], after: Sequence[Line]) -> bool:
    """Whether lines end within a traceback, and those of the next file are the rest of it."""
    if not before or not after:
        return False
    for line in reversed(before[-_LINES_OF_A_FRAME:]):
        if _frame(line.text) is not None or "Traceback (most recent" in line.text:
            break
        if not line.text.startswith("    "):
            return False
    else:
        return False
    text = after[0].text
    match = _KIND.match(text) if _promising(after[0]) else None
    return (
        text.startswith("  ") or _frame(text) is not None or (match is not None and _plausible(text, match, open_stack=True))
    )


class _Stack:
    """The frames of one rank that wait for their exception."""

    __slots__ = ("cut", "frames", "ignored", "last", "reverse", "started", "worker")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.ignored = False
        self.worker = False
        self.reverse = False
        self.cut = False
        self.started: Line | None = None
        self.last: Line | None = None


class _Finder:
    """One walk over the lines, with a stack of frames for each rank."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.raised: list[Raised] = []
        self.stacks: dict[tuple[str, int | None], _Stack] = {}
        self.kinds: dict[int, re.Match[str] | None] = {}

    def run(self) -> list[Raised]:
        window = None
        for index, line in enumerate(self.lines):
            if window is not None and line.window != window:
                self._flush_all()
            window = line.window
            self._take(index, line)
        self._flush_all()
        return sorted(self.raised, key=lambda raised: raised.line.order)

    def _take(self, index: int, line: Line) -> None:
        text = line.text
        key = (line.log, line.rank)
        if "\\n" in text and 'File "' in text.replace('\\"', '"') and self._quoted(index, line, key):
            return
        frame = _frame(text)
        if frame is not None:
            stack = self.stacks.setdefault(key, _Stack())
            if len(stack.frames) == _MOST_FRAMES and not stack.reverse:
                del stack.frames[0]
            if len(stack.frames) < _MOST_FRAMES:
                stack.frames.append(frame)
            if stack.started is None and (_SPY_FRAME.match(text) or text.lstrip().startswith("#")):
                stack.reverse = True
            stack.started = stack.started or line
            stack.last = line
            return
        innermost_first = _INNERMOST_FIRST.search(text) is not None
        if innermost_first or "Traceback (most recent" in text or "Stack (most recent" in text:
            self._open(key, index, line, reverse=innermost_first)
            return
        self._maybe_raised(index, line, key)

    def _quoted(self, index: int, line: Line, key: tuple[str, int | None]) -> bool:
        """A whole traceback in one line, as text in quotes: KeyError shows its message so, and so do JSON logs."""
        parts = _lines_in_quotes(line.text)
        frames = [frame for part in parts if (frame := _frame(part)) is not None]
        ends = [match for part in reversed(parts) if (match := _KIND.search(part.strip(" '\"}"))) is not None]
        if not frames or not ends:
            return False
        outer = self.stacks.pop(key, None) or _Stack()
        outer.frames = [*outer.frames, *frames][-_MOST_FRAMES:]
        self.raised.append(self._exception(index, line, ends[0], outer))
        return True

    def _open(self, key: tuple[str, int | None], index: int, line: Line, *, reverse: bool) -> None:
        stack = self.stacks.get(key)
        if stack is not None and stack.frames:
            self._flush(key)
        stack = _Stack()
        before = [other.text for other in self.lines[max(0, index - 4) : index] if other.window == line.window]
        stack.ignored = any(_IGNORED.search(text) for text in [*before[-2:], line.text])
        stack.worker = "Original Traceback" in line.text or any(_worker(text) for text in before)
        stack.started = line
        stack.reverse = reverse
        stack.cut = not reverse and "^C" not in "".join([*before[-2:], line.text])
        self.stacks[key] = stack

    def _maybe_raised(self, index: int, line: Line, key: tuple[str, int | None]) -> None:
        stack = self.stacks.get(key)
        match = self._kind(index)
        if match is None or not _plausible(line.text, match, open_stack=stack is not None):
            self._code(stack, line)
            return
        if stack is not None and line.text.startswith("    ") and "Error(" in line.text:
            return
        stack = self.stacks.pop(key, None) or _Stack()
        self.raised.append(self._exception(index, line, match, stack))

    def _kind(self, index: int) -> re.Match[str] | None:
        """The name of an exception in a line; kept, since the messages of those before it end there."""
        if index not in self.kinds:
            line = self.lines[index]
            self.kinds[index] = _KIND.search(line.text) if _promising(line) else None
        return self.kinds[index]

    def _code(self, stack: _Stack | None, line: Line) -> None:
        """The source line below a frame."""
        if stack is not None and stack.frames and not stack.frames[-1].code and line.text.startswith(("  ", "--->")):
            last = stack.frames[-1]
            stack.frames[-1] = Frame(last.file, last.line, last.function, line.text.strip()[:300])

    def _exception(self, index: int, line: Line, match: re.Match[str], stack: _Stack) -> Raised:
        message = match["message"] or ""
        following = self._following(index)
        frames = tuple(stack.frames)
        top = bool(frames) and frames[0].function in {"<module>", "_run_module_as_main"} and not _in_child(frames)
        return Raised(
            kind=match["kind"].rsplit(".", 1)[-1],
            message="\n".join([message, *following]).strip(),
            line=line,
            frames=frames,
            survivable=not top and (stack.ignored or self._goes_on(index, line)),
            top=top and not stack.ignored,
            worker=stack.worker or "in DataLoader worker" in message or _in_child(frames),
            phase=self._phase(index, line, frames),
        )

    def _phase(self, index: int, line: Line, frames: tuple[Frame, ...]) -> str | None:
        told = phase_of_frames(frames)
        if told not in {None, "train"}:
            return told
        if told is not None:
            return told
        before = (self.lines[place] for place in range(index - 1, max(0, index - _PHASE_LINES) - 1, -1))
        return next((phase for other in before if _same(other, line) and (phase := phase_of_line(other))), None)

    def _following(self, index: int) -> list[str]:
        """The lines of a message after its first: up to a frame, a header of a logger, or the next exception."""
        message = []
        for place in range(index + 1, min(index + 1 + _MESSAGE_LINES, len(self.lines))):
            other = self.lines[place]
            text = other.text
            if not _same(other, self.lines[index]) or bool(other.prefix) != bool(self.lines[index].prefix):
                break
            if _frame(text) or "Traceback (" in text or _HEADER.match(text):
                break
            match = self._kind(place)
            if match is not None and (match.start() == 0 or _plausible(text, match, open_stack=False)):
                break
            message.append(text)
        return message

    def _goes_on(self, index: int, line: Line) -> bool:
        """Whether the line, or one right beside it, says that the program dealt with the error and went on."""
        if _WENT_ON.search(line.text.split("Error")[0]) or _WARNED.search(f"{line.level} {line.text}"):
            return True
        before = [other for other in self.lines[max(0, index - 1) : index] if _TROUBLE.search(other.text)]
        beside = [*before, *self.lines[index + 1 : index + 4]]
        return any(_WENT_ON.search(other.text) and not _advice(other.text) for other in beside if _same(other, line))

    def _flush_all(self) -> None:
        for key in list(self.stacks):
            self._flush(key)

    def _flush(self, key: tuple[str, int | None]) -> None:
        stack = self.stacks.pop(key)
        if stack.frames and stack.last is not None:
            if stack.reverse:
                stack.frames.reverse()
            self.raised.append(
                Raised(
                    "",
                    "",
                    stack.last,
                    tuple(stack.frames),
                    survivable=stack.ignored,
                    worker=stack.worker,
                    stack_only=True,
                    cut=stack.cut,
                    phase=phase_of_frames(stack.frames),
                )
            )


def _lines_in_quotes(text: str) -> list[str]:
    """The lines of a text that stands in one line with its line ends and quotes escaped."""
    return text.replace('\\"', '"').replace("\\'", "'").split("\\n")


def _frame(text: str) -> Frame | None:
    if ".py" not in text and 'File "' not in text and "<ipython" not in text:
        return None
    match = (
        _FRAME.search(text)
        or _RICH_FRAME.match(text)
        or _SPY_FRAME.match(text)
        or _NOTEBOOK_FRAME.match(text)
        or _GDB_FRAME.search(text)
    )
    return Frame(match["file"], to_int(match["line"], 0), match["function"]) if match else None


_PROMISES = (  # words without which no line is an exception
    "error",
    "exception",
    "interrupt",
    "exit",
    "timeout",
    "stopiteration",
    "fault",
    "fail",
    "badzipfile",
    "notfound",
    "queue.empty",
    "queue.full",
    "gatedrepo",
    "missing",
    "exceeded",
    "notimplemented",
)


def _promising(line: Line) -> bool:
    lowered = line.lowered
    return any(word in lowered for word in _PROMISES)


def _plausible(text: str, match: re.Match[str], *, open_stack: bool) -> bool:
    """A name of an exception in a sentence or a metric is not an exception: it begins the line, or follows a log header."""
    kind = match["kind"]
    if _ERROR_WORD.match(kind) or kind in {"timeout", "error"}:
        return open_stack and match.start() == 0
    before = text[: match.start("kind")]
    if not before.strip(" \t'\"│*E>"):
        return bool(match["colon"]) or match.end() == len(text)
    if re.search(r"(?:raise|except|import|catch|isinstance|assert)\b", before):
        return False
    return bool(match["colon"]) and not re.search(r"[a-z] [a-z]+ $", before.rstrip(":") + " ")


def _in_child(frames: tuple[Frame, ...]) -> bool:
    return any(
        frame.file.endswith(("multiprocessing/spawn.py", "multiprocessing/process.py", "_utils/worker.py", "forkserver.py"))
        for frame in frames[:4]
    )


def _worker(text: str) -> bool:
    return "in DataLoader worker process" in text or "Process SpawnProcess" in text or "Process ForkProcess" in text


def _same(other: Line, line: Line) -> bool:
    """Lines of one window that one process can have written."""
    return other.window == line.window and (other.rank is None or line.rank is None or other.rank == line.rank)


def _advice(text: str) -> bool:
    """Words that only sound as if the program had gone on."""
    lowered = text.lower()
    return any(
        words in lowered for words in ("consider passing", "hydra_full_error", "exception ignored", "loss scale", "overflow")
    )
