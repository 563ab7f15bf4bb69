"""Tells the user's own command what happened: mail, chat or phone are the user's affair. It can never hold anything up."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from typing import Any

__all__ = ["Notifier"]

_PATIENCE = 30.0


class Notifier:
    """Runs a shell command with a verdict on its standard input, in a thread of its own."""

    def __init__(self, command: str | None) -> None:
        self._command = command
        self._threads: list[threading.Thread] = []

    def tell(self, what: str, verdict: dict[str, Any]) -> None:
        """Start the command: ``what`` is death, hang, resume or end."""
        if self._command:
            thread = threading.Thread(
                target=self._run, args=(json.dumps({"event": what, **verdict}, default=str),), daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def finish(self) -> None:
        """Give commands that still run a moment."""
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _run(self, text: str) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(  # noqa: S602 - the user's own command line
                self._command or "",
                shell=True,
                input=text.encode(),
                timeout=_PATIENCE,
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=_unblock_signals,
            )


def _unblock_signals() -> None:
    """The supervisor blocks nearly every signal, and programs inherit that."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
