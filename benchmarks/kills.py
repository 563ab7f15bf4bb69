"""Kills the supervisor, or the job, at random moments, and counts what was lost: it must be nothing.

    python benchmarks/kills.py [200] [--job] [--seed 1] [--load 2]

The job writes numbered lines. After the supervisor's death the job must finish, its log hold every line, its exit status be
known and the recording be readable. With `--job` the job is killed instead: every line that it had written must be in the log,
every sample that was on the disk before must still be there, the end be told as the kill that it was, and its page be kept as it
was at the end. `--load` keeps so many busy loops beside every other trial. Looks that came late are counted apart: a machine
that does not run us for seconds is not looked at, but nothing is lost by that.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from crashcart.inside.layout import FIELDS
from crashcart.readers.flight import read_flight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINES = 100
# `said` counts the lines that the job has handed to the system: those are acknowledged.
JOB = f"""
import os, time
said = os.open("said", os.O_RDWR | os.O_CREAT)
for i in range({LINES}):
    print('line', i, flush=True)
    os.pwrite(said, b'%d' % (i + 1), 0)
    time.sleep(0.01)
open('done', 'w').close()
"""
LATE = 3.0


class Trial(NamedTuple):
    """What was lost, and the longest time between two looks; ``began`` is false where the kill came too early or too late."""

    began: bool
    lost: tuple[str, ...] = ()
    gap: float = 0.0


def main() -> int:
    """Run the trials and print the count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--job", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kill: Callable[[Path, random.Random], Trial] = job_killed if options.job else supervisor_killed
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.count):
            place = Path(folder, str(number))
            place.mkdir()
            with busy(options.load if number % 2 else 0):
                results.append(kill(place, chance))
            for what in results[-1].lost:
                print(f"trial {number}: lost {what}", flush=True)
    begun = [one for one in results if one.began]
    whole = sum(not one.lost for one in begun)
    late = sum(one.gap >= LATE for one in begun)
    print(f"{options.count} kills, {len(begun)} while the job ran: {whole} without any loss, {late} with a late look")
    return 0 if whole == len(begun) else 1


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Loops that take the processors away."""
    loop = [sys.executable, "-S", "-c", "import os\nos.nice(5)\nwhile True: pass"]
    loops = [subprocess.Popen(loop) for _ in range(count)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def start(place: Path) -> subprocess.Popen[bytes]:
    """The job under `crashcart run`."""
    command = [sys.executable, "-m", "crashcart", "run", "--", sys.executable, "-c", JOB]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def supervisor_killed(place: Path, chance: random.Random) -> Trial:
    """The supervisor dies, the job must not notice."""
    supervisor = start(place)
    time.sleep(0.1 + chance.random() * 1.6)
    supervisor.kill()
    supervisor.wait()
    run = next((path.parent.parent for path in place.glob("crashcart_runs/*/logs/output.log")), None)
    if run is None:
        return Trial(began=False)
    before = moments(run)
    end = time.monotonic() + 60
    while not (run / "exit.json").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.1)  # the last lines may still be on their way from the keeper to the disk
    lost = []
    if (run / "logs" / "output.log").read_text().splitlines() != [f"line {i}" for i in range(LINES)]:
        lost.append("lines of the log")
    if not (place / "done").exists():
        lost.append("the job")
    if read_flight(str(run)).ending.get("code") != 0:
        lost.append("the exit status")
    if not before <= moments(run):
        lost.append("samples")
    return Trial(began=True, lost=tuple(lost))


def job_killed(place: Path, chance: random.Random) -> Trial:
    """The job dies: what it had written and what was recorded must be there."""
    supervisor = start(place)
    facts, job = known(place, supervisor)
    time.sleep(chance.random() * 1.3)
    before = moments(facts.parent) if facts is not None else set()
    if facts is not None and job is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(job, signal.SIGKILL)
    supervisor.wait()
    if facts is None or job is None:
        return Trial(began=False)
    flight = read_flight(str(facts.parent))
    if flight.ending.get("code") == 0:  # it had ended by itself: signals to the dead are accepted too
        return Trial(began=False)
    lost = []
    log = (facts.parent / "logs" / "output.log").read_text().splitlines()
    said = int((place / "said").read_text() or 0) if (place / "said").exists() else 0
    expected = [f"line {i}" for i in range(len(log))]
    cut = bool(log) and len(log) > said and expected[-1].startswith(log[-1])  # unbuffered, a line is written in pieces
    if len(log) < said or (log[:-1] if cut else log) != (expected[:-1] if cut else expected):
        lost.append(f"lines: {said} were written, {len(log)} are there, the last ones: {log[-4:]}")
    if flight.ending.get("signal") != "SIGKILL":
        lost.append(f"the exit status: {flight.ending}")
    after = moments(facts.parent)
    if not after or not before <= after:
        lost.append(f"samples: {len(before)} were there, {len(before - after)} of them are gone, {len(after)} in all")
    page = next((one.page for one in flight.processes.values() if one.pid == job), {})
    if said and not set(FIELDS) <= page.keys():
        lost.append("the page of the job")
    gaps = [later - earlier for earlier, later in itertools.pairwise(sorted(after))]
    return Trial(began=True, lost=tuple(lost), gap=max(gaps, default=0.0))


def known(place: Path, supervisor: subprocess.Popen[bytes]) -> tuple[Path | None, int | None]:
    """The facts of the run and the process of the job, as soon as the supervisor has written them."""
    while supervisor.poll() is None:
        for facts in place.glob("crashcart_runs/*/run.json"):
            job = json.loads(facts.read_text()).get("job")
            if job is not None:
                return facts, job
        time.sleep(0.02)
    return None, None


def moments(run: Path) -> set[float]:
    """When there are samples of."""
    return {moment for moment, _ in read_flight(str(run)).samples}


if __name__ == "__main__":
    sys.exit(main())
