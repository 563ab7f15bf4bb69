"""Kills the supervisor, or the job, at random moments, and counts what was lost: it must be nothing.

    python benchmarks/kills.py [200] [--job]

The job writes numbered lines. After the supervisor's death the job must finish, its log hold every line, its exit status be
known and the recording be readable. With `--job` the job is killed instead, and every sample up to then must be there.
"""

from __future__ import annotations

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

from crashcart.readers.flight import read_flight

LINES = 100
JOB = f"import time\nfor i in range({LINES}):\n    print('line', i)\n    time.sleep(0.01)\nopen('done', 'w').close()"


def main() -> int:
    """Run the trials and print the count."""
    count = next((int(word) for word in sys.argv[1:] if word.isdigit()), 200)
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for number in range(count):
            place = Path(folder, str(number))
            place.mkdir()
            results.append((job_killed if "--job" in sys.argv else supervisor_killed)(place, chance))
    begun = [one for one in results if one is not None]
    print(f"{count} kills, {len(begun)} after the job had begun: {sum(begun)} without any loss")
    return 0 if all(begun) else 1


def start(place: Path) -> subprocess.Popen[bytes]:
    """The job under `crashcart run`."""
    command = [sys.executable, "-m", "crashcart", "run", "--", sys.executable, "-c", JOB]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def supervisor_killed(place: Path, chance: random.Random) -> bool | None:
    """Whether nothing was lost; None where the job had not begun."""
    supervisor = start(place)
    time.sleep(0.1 + chance.random() * 1.6)
    supervisor.kill()
    supervisor.wait()
    run = next((path.parent.parent for path in place.glob("crashcart_runs/*/logs/output.log")), None)
    if run is None:
        return None
    end = time.monotonic() + 20
    while not (run / "exit.json").exists() and time.monotonic() < end:
        time.sleep(0.05)
    whole = (run / "logs" / "output.log").read_text().splitlines() == [f"line {i}" for i in range(LINES)]
    return whole and (place / "done").exists() and read_flight(str(run)).ending.get("code") == 0


def job_killed(place: Path, chance: random.Random) -> bool | None:
    """Whether the log has every line that the job could write, and the recording every second until then."""
    supervisor = start(place)
    time.sleep(0.4 + chance.random() * 0.9)
    facts = next(iter(place.glob("crashcart_runs/*/run.json")), None)
    job = json.loads(facts.read_text()).get("job") if facts is not None else None
    if facts is None or job is None:
        supervisor.wait()
        return None
    try:
        os.kill(job, signal.SIGKILL)
    except ProcessLookupError:
        supervisor.wait()
        return None
    supervisor.wait()
    flight = read_flight(str(facts.parent))
    log = (facts.parent / "logs" / "output.log").read_text().splitlines()
    samples = [moment for moment, _ in flight.samples]
    gaps = [later - earlier for earlier, later in itertools.pairwise(samples)]
    in_order = log == [f"line {i}" for i in range(len(log))]
    return in_order and flight.ending.get("signal") == "SIGKILL" and bool(samples) and max(gaps, default=0) < 3


if __name__ == "__main__":
    sys.exit(main())
