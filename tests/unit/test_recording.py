"""Samples on disk: nothing that was acknowledged is lost, damage costs what it hits, and a day stays small."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from crashcart.inside.layout import FIELDS
from crashcart.readers.flight import read_flight
from crashcart.recording.frames import Sample, frames, pack_header, pack_sample, unpack_sample
from crashcart.recording.tables import TABLES
from crashcart.recording.writer import Writer, thinned

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {**TABLES, "page": FIELDS}


def sample(second: float, processes: int, chance: random.Random, ranks: int = 8) -> Sample:
    """A second of a job with so many processes."""
    rows = [
        [
            1000.0 + one,
            2e9 + chance.gauss(0, 1e6),
            float("nan"),
            5e8,
            40.0,
            12.0,
            second * 0.7,
            83.0,
            3.0,
            1e6 * second,
            1e3,
            5.0,
        ]
        for one in range(processes)
    ]
    pages = [[chance.random() * second for _ in FIELDS] for _ in range(ranks)]
    cards = [[float(one), 6e10 + chance.gauss(0, 1e7), 8e10, 0.97, 0.6, 61.0, 680 + chance.gauss(0, 9), 700.0, 1980.0, 1980.0, 0.0, 0.0, 6e10, 0.0] for one in range(ranks)]  # fmt: skip
    host = [[chance.random() * 1e9 for _ in TABLES["host"]]]
    return Sample(second, second, {"host": host, "cgroup": [[1.0] * 12], "process": rows, "gpu": cards, "page": pages})


def test_a_sample_comes_back_as_it_was() -> None:
    chance = random.Random(1)
    before = sample(60.0, 3, chance)
    ((kind, payload),) = frames(pack_sample(before, list(COLUMNS)))
    after = unpack_sample(payload, list(COLUMNS))
    assert kind == b"S"
    assert repr(after) == repr(before)


def test_damage_costs_the_frame_it_hits() -> None:
    chance = random.Random(2)
    pieces = [pack_header(COLUMNS), *(pack_sample(sample(float(one), 2, chance), list(COLUMNS)) for one in range(20))]
    whole = b"".join(pieces)
    for _ in range(200):
        at = chance.randrange(len(pieces[0]), len(whole))
        damaged = whole[:at] + bytes(64) + whole[at + 64 :]
        kept = [unpack_sample(payload, list(COLUMNS)).time for kind, payload in frames(damaged) if kind == b"S"]
        assert len(kept) >= 18
        assert kept == sorted(kept)
    for _ in range(50):
        cut = chance.randrange(len(whole))
        ends = [sum(map(len, pieces[: one + 1])) for one in range(len(pieces))]
        assert len(list(frames(whole[:cut]))) == sum(end <= cut for end in ends)


def test_thinning_keeps_the_peak() -> None:
    chance = random.Random(3)
    samples = [sample(float(second), 2, chance) for second in range(60)]
    samples[37].tables["process"][0][1] = 9e10
    data = pack_header(COLUMNS) + b"".join(pack_sample(one, list(COLUMNS)) for one in samples)
    kept = [unpack_sample(payload, list(COLUMNS)) for kind, payload in frames(thinned(data, 30)) if kind == b"S"]
    assert len(kept) == 2
    assert max(row[1] for one in kept for row in one.tables["process"]) == 9e10


def test_an_hour_of_a_large_job_stays_small_and_its_end_whole(tmp_path: Path) -> None:
    chance = random.Random(4)
    writer = Writer(str(tmp_path / "recording"), COLUMNS)
    base = sample(0.0, 73, chance)
    for second in range(3600):
        writer.sample(base._replace(time=float(second), monotonic=float(second)))
    writer.close()
    assert sum(path.stat().st_size for path in (tmp_path / "recording").iterdir()) < 100e6 / 24
    times = [time for time, _ in read_flight(str(tmp_path)).samples]
    assert times[-500:] == [float(second) for second in range(3100, 3600)]
    assert len(times) < 1800


def test_no_acknowledged_sample_is_lost_to_a_kill(tmp_path: Path) -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[2])\n"
        "from test_recording import COLUMNS, sample; from crashcart.recording.writer import Writer; import random\n"
        "writer = Writer(sys.argv[1], COLUMNS); chance = random.Random(1); second = time.time() // 60 * 60 + 56\n"
        "while True:\n    writer.sample(sample(second, 2, chance, 1)); print(second, flush=True); second += 0.05"
    )  # small samples: a fast machine writes thousands, and reading keeps only as many numbers as fit into memory
    chance = random.Random(5)
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        job = subprocess.Popen(
            [sys.executable, "-c", code, str(folder / "recording"), os.path.dirname(__file__)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert job.stdout is not None
        job.stdout.readline()
        time.sleep(chance.random() * 0.3)
        job.send_signal(signal.SIGKILL)
        said = [float(line) for line in job.stdout.read().splitlines() if line.endswith(tuple("0123456789"))]
        job.wait()
        read = {round(one, 3) for one, _ in read_flight(str(folder)).samples}
        assert {round(one, 3) for one in said[:-1]} <= read


def test_a_clock_that_is_set_back_costs_no_sample(tmp_path: Path) -> None:
    """A minute that comes twice is packed twice: the second time with what is there."""
    chance = random.Random(6)
    writer = Writer(str(tmp_path / "recording"), COLUMNS)
    moments = [110.0, 119.0, 121.0, 112.0, 118.0, 122.0, 181.0, 190.0]
    for moment in moments:
        writer.sample(sample(moment, 2, chance))
    writer.close()
    assert [time for time, _ in read_flight(str(tmp_path)).samples] == sorted(moments)


def test_a_kill_between_packing_and_removing_loses_nothing_and_doubles_nothing_for_long(tmp_path: Path) -> None:
    """The plain file is still there beside the packed one when the minute is thinned."""
    chance = random.Random(7)
    folder = tmp_path / "recording"
    writer = Writer(str(folder), COLUMNS)
    for second in range(60):
        writer.sample(sample(float(second), 2, chance))
    plain = (folder / "samples-0").read_bytes()
    writer.sample(sample(60.0, 2, chance))
    assert not (folder / "samples-0").exists()
    (folder / "samples-0").write_bytes(plain)
    writer.sample(sample(601.0, 2, chance))
    writer.close()
    times = [time for time, _ in read_flight(str(tmp_path)).samples]
    assert not (folder / "samples-0").exists()
    assert len(times) == 12 + 2
    assert len({int(time // 5) for time in times}) == 12 + 2
