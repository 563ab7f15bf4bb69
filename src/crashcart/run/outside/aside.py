"""Questions that may take long, or never be answered, asked on a thread of their own.

``statvfs`` on a dead file server, NVML on a card that fell off the bus and the page tables of a huge process all wait inside
the kernel; the supervisor must not.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Aside"]

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Aside(Generic[Question, Answer]):
    """One thread that answers one question at a time."""

    def __init__(self, ask: Callable[[Question], Answer]) -> None:
        self._ask = ask
        self._questions: queue.SimpleQueue[tuple[Question] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.busy = False

    def begin(self, question: Question) -> bool:
        """Ask, unless the last question is still open."""
        if self.busy:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="crashcart-aside", daemon=True)
            self._thread.start()
        self.busy = True
        self._questions.put((question,))
        return True

    def take(self, patience: float = 0.0) -> Answer | None:
        """The answer, once; None while there is none."""
        if not self.busy:
            return None
        try:
            answer = self._answers.get(timeout=patience) if patience > 0 else self._answers.get_nowait()
        except queue.Empty:
            return None
        self.busy = False
        return answer

    def close(self) -> None:
        """Let the thread end after what it is doing now."""
        if self._thread is not None:
            self._questions.put(None)

    def _work(self) -> None:
        while (given := self._questions.get()) is not None:
            answer = None
            with contextlib.suppress(Exception):  # no answer is an answer; the thread must live
                answer = self._ask(given[0])
            self._answers.put(answer)
