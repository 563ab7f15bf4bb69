"""What processes write about themselves is kept, however short they lived and however they died."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

from crashcart.inside import layout
from crashcart.run.pages import Pages

SITE = Path(layout.__file__).resolve().parent / "site"


def _run(live: Path, code: str) -> int:
    given = {**os.environ, "PYTHONPATH": str(SITE), "CRASHCART_LIVE": str(live), "CRASHCART_SIGNAL": "44"}
    return subprocess.run([sys.executable, "-c", code], env=given, check=False).returncode


def _pages(tmp_path: Path) -> tuple[Path, Pages]:
    live = tmp_path / "live"
    live.mkdir()
    return live, Pages(str(live), str(tmp_path / "kept"))


def test_a_process_that_lived_between_two_looks_has_its_row_and_its_events(tmp_path: Path) -> None:
    live, pages = _pages(tmp_path)
    pages.look()
    assert _run(live, "import os; os.kill(os.getpid(), 9)") == -9
    rows, events = pages.look(last=True)
    assert [row[layout.FIELDS.index("pid")] for row in rows] == [page.pid for page in pages.pages.values()]
    assert [event["kind"] for event in events] == ["hello"]
    assert len(rows) == 1


def test_the_last_look_takes_all_events_however_many_there_are(tmp_path: Path) -> None:
    """They lie in memory that is given back after it."""
    live, pages = _pages(tmp_path)
    numbers = [float("nan")] * 64
    (live / "77-1.page").write_bytes(struct.pack("64d", *numbers))
    lines = [
        json.dumps({"t": 1.0, "m": 1.0, "kind": "tracker", "number": number, "text": "x" * 500}) for number in range(6000)
    ]
    (live / "77-1.events").write_text("\n".join(lines) + "\n")
    _, events = pages.look(last=True)
    assert [event["number"] for event in events] == list(range(6000))
    kept = (tmp_path / "kept" / "77-1.events").read_text().splitlines()
    assert [json.loads(line)["number"] for line in kept] == list(range(6000))


def test_a_line_that_a_kill_cut_off_costs_itself_and_no_other(tmp_path: Path) -> None:
    live, pages = _pages(tmp_path)
    (live / "77-1.page").write_bytes(struct.pack("64d", *[0.0] * 64))
    path = live / "77-1.events"
    whole = b'{"t": 1.0, "m": 1.0, "kind": "exit"}\n'
    path.write_bytes(whole + whole[:20])
    assert len(pages.look()[1]) == 1
    assert pages.look()[1] == []
    with path.open("ab") as file:  # another thread goes on
        file.write(whole[20:] + whole)
    assert len(pages.look()[1]) == 2
    assert pages.look(last=True)[1] == []


def test_a_phase_that_is_read_while_it_changes_never_seems_old(tmp_path: Path) -> None:
    """Between two stores of the writer: whichever phase is seen, it is not older than the lasting one really is."""
    live, pages = _pages(tmp_path)
    code = """
import sys, time
from _crashcart_inside import page, phases
phases.now.since -= 1000.0  # start-up seems to last for long
page.here.numbers[page.PHASE_SINCE] = phases.now.since
print("ready", flush=True)
end = time.monotonic() + 1.0
while time.monotonic() < end:
    phases.leave(phases.enter(phases.DATA))
"""
    given = {**os.environ, "PYTHONPATH": str(SITE), "CRASHCART_LIVE": str(live), "CRASHCART_SIGNAL": "44"}
    job = subprocess.Popen([sys.executable, "-c", code], env=given, stdout=subprocess.PIPE)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    ended = threading.Thread(target=job.wait)
    ended.start()
    seen = set()
    at = {name: layout.FIELDS.index(name) for name in ("phase", "phase_since", "last_progress")}
    while ended.is_alive():
        pages.look()
        for one in pages.pages.values():
            if one.numbers[at["phase"]] == layout.PHASES.index("data"):
                seen.add("data")
                assert one.numbers[at["last_progress"]] - one.numbers[at["phase_since"]] < 100
    ended.join()
    job.stdout.close()
    assert job.returncode == 0
    assert seen == {"data"}
