"""A tracker that can never block, slow or kill training: `nonblocking(wandb)`, and the same for mlflow, tensorboard, trackio.

Calls that log return within microseconds and are made by a thread of their own; a local copy is written before. Calls that begin
or end a run, or send a file, are made by that thread too, and waited for up to a limit. Anything else is the tracker's own.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from crashcart.train.tracking.channel import Channel
from crashcart.train.tracking.kinds import ENDS, OF_RUN, OPENS, RETURNS, ending, kind_of, logs
from crashcart.train.tracking.sender import Later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Absent", "NonBlocking", "nonblocking"]

_OWN = "_crashcart"


def nonblocking(
    tracker: Any,  # noqa: ANN401 - a module, a run, a writer
    folder: str | os.PathLike[str] = "tracker-copy",
    *,
    rows: int = 10_000,
    call_seconds: float = 30.0,
    exit_seconds: float = 10.0,
) -> Any:  # noqa: ANN401 - to the type checker it may have all that the tracker has
    """Give the tracker (a module, a run, a writer, any object that logs) a form that never waits and never raises.

        wandb = nonblocking(wandb)

    folder: where each process keeps its local copy. rows: how many may wait for the tracker before it misses some.
    call_seconds: how long a call that gives something back may keep the program, and when one counts as hanging.
    exit_seconds: how long the end of the program, or of a run, may take.
    """
    if isinstance(tracker, NonBlocking):
        return tracker
    channel = Channel(kind_of(tracker), os.fspath(folder), rows, call_seconds, exit_seconds, local=False)
    channel.target = tracker
    return NonBlocking(tracker, channel)


def _local_only(kind: str, folder: str) -> NonBlocking:
    """What another process gets: it keeps rows in a copy of its own, since the tracker's connection belongs to the first."""
    channel = Channel(kind, folder, 0, 0.0, 5.0, local=True)
    return NonBlocking(Absent(folder), channel)


class Absent:
    """Stands for what a tracker did not give in time: takes everything, is nothing."""

    def __init__(self, folder: str = "") -> None:
        self.__dict__["_folder"] = folder

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        """Nothing is kept."""

    def __call__(self, *_args: object, **_named: object) -> Absent:
        """Nothing is done."""
        return self

    def __getitem__(self, _key: object) -> Absent:
        return self

    def __setitem__(self, _key: object, _value: object) -> None:
        """Nothing is kept."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return "unknown"

    def __fspath__(self) -> str:
        return str(self.__dict__["_folder"])

    def __enter__(self) -> Any:  # noqa: ANN401 - itself
        return self

    def __exit__(self, *_error: object) -> None:
        return None


def _can_log(value: object) -> bool:
    try:
        return callable(getattr(value, "log", None))
    except Exception:  # noqa: BLE001 - wandb's summary looks for a value of that name, and raises a KeyError
        return False


class NonBlocking:
    """The form that `nonblocking` gives; attributes are the tracker's, `counts` and `local_copy` are ours."""

    def __init__(self, target: Any, channel: Channel) -> None:  # noqa: ANN401 - any tracker
        self.__dict__[_OWN] = (target, channel)

    @property
    def counts(self) -> dict[str, int]:
        """Rows logged, delivered, dropped for the tracker, failed there, lost altogether."""
        channel = self._channel()
        return {**channel.counts, "delivered": channel.sender.delivered}

    @property
    def local_copy(self) -> str:
        """The folder of this process's copy."""
        return self._channel().copy.folder

    def _channel(self) -> Channel:
        target, channel = self.__dict__[_OWN]
        if channel.pid != os.getpid():  # after a fork: neither the threads nor the tracker's connection came along
            channel = Channel(channel.kind, os.path.dirname(channel.copy.folder), 0, 0.0, 5.0, local=True)
            self.__dict__.clear()
            self.__dict__[_OWN] = (target, channel)
        return cast("Channel", channel)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the tracker has
        if name.startswith("__"):
            raise AttributeError(name)
        target, channel = self.__dict__[_OWN]
        if isinstance(target, Later):
            if not target.came():
                return self._call(target, name) or Absent(channel.copy.folder)
            target = target.value
        if name in OF_RUN and isinstance(target, ModuleType) and channel.opened is not None and not channel.opened.came():
            return Absent(channel.copy.folder)  # wandb.config, without its run, raises whatever one does with it
        value = getattr(target, name)  # what the tracker does not have is an error at once
        if callable(value) and not isinstance(value, type) and not isinstance(target, Absent):
            return self._call(target, name) or value
        if isinstance(target, Absent):
            return self._call(target, name) or value
        if not isinstance(value, (ModuleType, type)) and _can_log(value):
            return NonBlocking(value, channel)  # wandb.run
        return value

    def _call(self, target: Any, name: str) -> Callable[..., Any] | None:  # noqa: ANN401 - any tracker
        if logs(name):
            made = self._queued(target, name)
            self.__dict__[name] = made  # found without us the next time
            return made
        if name in ENDS:
            return lambda *args, **kwargs: self._end(target, name, args, kwargs)
        if name in OPENS or name in RETURNS:
            return lambda *args, **kwargs: self._result(target, name, args, kwargs)
        return None

    def _queued(self, target: Any, name: str) -> Callable[..., None]:  # noqa: ANN401 - any tracker
        channel = self._channel()
        put, mine, getpid = channel.put, channel.pid, os.getpid

        def queued(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - whatever is logged
            if getpid() == mine:
                put(target, name, args, kwargs)
            else:
                self._channel().put(target, name, args, kwargs)

        return queued

    def _result(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        channel = self._channel()
        later = channel.ask(target, name, args, kwargs, channel.call_seconds)
        if name in OPENS:
            channel.opened = later
            channel.target = later if not isinstance(target, ModuleType) else target
            return NonBlocking(later, channel)
        if later.came():
            return later.value
        return Absent(channel.copy.folder)

    def _end(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        channel = self._channel()
        seconds = kwargs.pop("timeout", None) if name == "close" else None
        channel.ended = channel.end(target, name, args, kwargs, channel.exit_seconds if seconds is None else seconds)

    def close(self, *args: Any, timeout: float | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - the tracker's own
        """Flush and end the run, for at most `timeout` seconds (exit_seconds by default)."""
        target, channel = self.__dict__[_OWN]
        limit = {} if timeout is None else {"timeout": timeout}
        known = target.value if isinstance(target, Later) else target
        name = "close" if callable(getattr(known, "close", None)) else ending(channel.kind)
        if name is None:
            channel.flush(channel.exit_seconds if timeout is None else timeout)
        elif name == "close":
            self._end(target, name, args, {**kwargs, **limit})
        else:
            seconds = self._channel().exit_seconds if timeout is None else timeout
            channel.ended = self._channel().end(target, name, args, kwargs, seconds)

    def __setattr__(self, name: str, value: object) -> None:
        target = self.__dict__[_OWN][0]
        known = target.value if isinstance(target, Later) else target
        if known is not None:
            setattr(known, name, value)

    def __enter__(self) -> Any:  # noqa: ANN401 - itself
        return self

    def __exit__(self, *error: object) -> None:
        target, channel = self.__dict__[_OWN]
        known = target.value if isinstance(target, Later) else target
        if hasattr(known, "__exit__"):
            self._end(target, "__exit__", error, {})
        else:
            channel.flush(channel.exit_seconds)

    def __call__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - a tracker that is a function
        """Queue the call."""
        self._channel().put(self.__dict__[_OWN][0], "__call__", args, kwargs)

    def __bool__(self) -> bool:
        target = self.__dict__[_OWN][0]
        if isinstance(target, Later):
            return target.came() and bool(target.value)
        return not isinstance(target, Absent)

    def __repr__(self) -> str:
        target, channel = self.__dict__[_OWN]
        return f"nonblocking({channel.kind if isinstance(target, Later) else target!r})"

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.__dict__[_OWN][0]), "close", "counts", "local_copy"})

    def __deepcopy__(self, _memo: object) -> NonBlocking:
        return self

    def __copy__(self) -> NonBlocking:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        channel = self._channel()
        return _local_only, (channel.kind, os.path.dirname(channel.copy.folder))
