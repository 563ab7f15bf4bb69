"""What ``doctor --active`` does: memory of idle cards is taken, written and read back, and two ranks meet.

Everything runs in processes of its own with a time limit, with the job's interpreter and torch, and never on a card that anybody
uses.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from crashcart.readers.machine.reading import Reading, amount, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["idle", "tests"]

GROUP = "tests"
LITTLE = 0.05
_ALLOCATION_SECONDS, _MEETING_SECONDS = 180.0, 90.0
_TRIALS = os.path.join(os.path.dirname(__file__), "trials")


def idle(card: Mapping[str, Any]) -> str:
    """Why a card must be left alone; empty where nobody uses it."""
    if "lost" in card:
        return "the driver cannot reach it"
    if card["mig"]:
        return "it is partitioned (MIG)"
    if card["processes"] is None or not card["total"]:
        return "its users are not reported"
    if card["processes"]:
        return f"{len(card['processes'])} process{'es' if len(card['processes']) != 1 else ''} on it"
    if card["used"] > LITTLE * card["total"]:
        return f"{amount(card['used'])} of it are in use"
    return ""


def tests(readings: Iterable[Reading], progress: Callable[[str], None]) -> Iterator[Reading]:
    """Each test as a reading; what could not be tried is unknown, and says why."""
    known = list(readings)
    python = next((one.value["python"] for one in known if one.name == "interpreter" and one.known), None)
    if python is None:
        yield unknown((GROUP, "meeting_test", "tests"), "not tried: the job's interpreter is not known", "")
        return
    cards: list[dict[str, Any]] = next((one.value["each"] for one in known if one.name == "cards" and one.known), [])
    free = []
    for card in cards:
        label = f"GPU {card['index']} memory"
        if why := idle(card):
            yield unknown((GROUP, "allocation_test", label), f"not tried: {why}", "allocation test")
            continue
        free.append(card)
        progress(f"testing the memory of GPU {card['index']}")
        yield _allocation(python, card, label)
    for backend, chosen in (("gloo", []), *([("nccl", free[:2])] if len(free) > 1 else [])):
        progress(f"connecting two ranks over {backend}")
        yield _meeting(python, backend, chosen)


def _allocation(python: str, card: dict[str, Any], label: str) -> Reading:
    command = [python, os.path.join(_TRIALS, "allocate.py")]
    (answer,) = _answers([(command, {"CUDA_VISIBLE_DEVICES": card["uuid"] or str(card["index"])})], _ALLOCATION_SECONDS)
    if "missing" in answer:
        return unknown((GROUP, "allocation_test", label), f"not tested: {answer['missing']}", python)
    wrong = bool(answer.get("wrong_blocks"))
    failed = "memory returned different data than was written" if wrong else answer.get("failed", "")
    if failed:
        held = f" after {amount(answer['bytes'])} of {amount(answer['free'])} free" if answer.get("bytes") else ""
        says = f"{failed}{held}"
    else:
        says = f"{amount(answer['bytes'])} written and read back in {answer['seconds']} s"
    value = {"index": card["index"], "failed": failed, "wrong": wrong, "bytes": answer.get("bytes")}
    return Reading(GROUP, "allocation_test", label, says, f"allocation test, GPU {card['index']}", value)


def _meeting(python: str, backend: str, cards: Sequence[dict[str, Any]]) -> Reading:
    label, limit = f"two ranks, {backend}", _MEETING_SECONDS
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    if cards:
        shared["CUDA_VISIBLE_DEVICES"] = ",".join(card["uuid"] or str(card["index"]) for card in cards)
    command = [python, os.path.join(_TRIALS, "meet.py"), backend, str(limit / 3)]
    begin = time.monotonic()
    answers = _answers([(command, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(2)], limit)
    missing = next((answer["missing"] for answer in answers if "missing" in answer), None)
    if missing is not None:
        return unknown((GROUP, "meeting_test", label), f"not tested: {missing}", python)
    failed = next((answer["failed"] for answer in answers if "failed" in answer), "")
    says = failed or f"connected and reduced in {time.monotonic() - begin:.1f} s, including the import of torch"
    return Reading(
        GROUP, "meeting_test", label, says, f"process group over {backend}", {"backend": backend, "failed": failed}
    )


def _answers(started: Sequence[tuple[list[str], dict[str, str]]], limit: float) -> list[dict[str, Any]]:
    """Run these at the same time and take the last line of each; whoever is there after the limit is killed, with all it started."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command, more in started:
            running.append(
                subprocess.Popen(  # noqa: S603 - the job's own interpreter, with a program of ours
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, **more},
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + limit
        return [_answer(process, deadline, limit) for process in running]
    except OSError as error:
        return [{"missing": f"{started[0][0][0]}: {error.strerror}"}]
    finally:
        for process in running:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answer(process: subprocess.Popen[bytes], deadline: float, limit: float) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {limit:.0f} s"}
    for line in reversed(out.decode("utf-8", "replace").splitlines()):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
    last = errors.decode("utf-8", "replace").strip().splitlines()
    ended = f"by signal {-process.returncode}" if process.returncode < 0 else f"with exit code {process.returncode}"
    return {"failed": f"it ended {ended}" + (f": {last[-1]}" if last else "")}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
