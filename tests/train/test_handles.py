"""A handle of its own for each process; the handle of `__init__`, shared over a fork, reads wrong samples."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from crashcart.train import per_worker

pytestmark = pytest.mark.processes

h5py = pytest.importorskip("h5py")
lmdb = pytest.importorskip("lmdb")
import numpy as np  # noqa: E402 - h5py brings it

PROGRAM = Path(__file__).parent / "programs" / "hdf5_workers.py"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("rows") / "rows.h5")
    with h5py.File(path, "w") as file:
        file["rows"] = np.arange(400)[:, None].repeat(5000, axis=1)
    return path


@pytest.fixture
def many(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / f"{number}.h5") for number in range(6)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            file["it"] = np.full(10, number)
    return paths


def eight_workers(path: str, kind: str, start: str, driver: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), path, kind, start, driver]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=350, check=False)


def test_the_usual_handle_reads_wrong_samples_after_a_fork(rows: str) -> None:
    """With a driver that moves a position; the default one of h5py 3.16 (HDF5 2.0) does not."""
    done = eight_workers(rows, "usual", "fork", "stdio")
    assert done.returncode != 0 or int(done.stdout.split()[0]) > 0, done.stdout + done.stderr


def test_the_usual_handle_cannot_be_spawned(rows: str) -> None:
    done = eight_workers(rows, "usual", "spawn", "default")
    assert done.returncode != 0
    assert "pickle" in done.stderr


@pytest.mark.parametrize(("start", "driver"), [("fork", "stdio"), ("spawn", "default"), ("forkserver", "default")])
def test_eight_workers_read_what_is_there(rows: str, start: str, driver: str) -> None:
    """While the parent, which has the same file open, goes on reading in a thread."""
    done = eight_workers(rows, "ours", start, driver)
    assert done.stdout.split() == ["0", "5"], done.stdout + done.stderr


def test_a_handle_is_opened_once_and_found_by_its_arguments(rows: str) -> None:
    files = per_worker(h5py.File)
    assert files(rows, "r") is files(rows, "r") is files(Path(rows), "r")
    assert files(rows, mode="r") is files(rows, mode="r")
    assert files[rows] is files[rows]
    assert len(files) == 3


def test_the_least_recently_used_goes_first(many: list[str]) -> None:
    files = per_worker(h5py.File, most=2)
    before = open_files()
    assert [int(files[path]["it"][0]) for path in many] == list(range(6))
    assert len(files) == 2
    assert open_files() == before + 2
    last = files[many[-1]]
    assert files[many[0]] is not None
    assert files[many[-1]] is last
    files.close()
    assert open_files() == before
    assert int(files[many[2]]["it"][0]) == 2


def test_what_somebody_holds_is_not_closed_under_them(many: list[str], tmp_path: Path) -> None:
    files = per_worker(h5py.File, most=1)
    held, part = files[many[0]], files[many[1]]["it"]
    assert files[many[2]]
    assert (int(held["it"][3]), int(part[3])) == (0, 1)
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    plain = per_worker(open, most=1)
    text = plain(tmp_path / "a.txt", encoding="utf-8")
    plain(many[0], "rb")
    assert text.read() == "a"


def test_what_nobody_holds_is_closed(many: list[str]) -> None:
    closed: list[str] = []
    handles = per_worker(lambda path: path, most=1, close=closed.append)
    for path in many[:3]:
        handles(path)
    assert closed == many[:2]
    plain = per_worker(zipfile.ZipFile, most=1)
    before = open_files()
    for number in range(3):
        name = many[0] + f".{number}.zip"
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("x", "y")
        plain(name)
        gc.disable()  # closed by us and not by chance
    assert open_files() == before + 1
    gc.enable()


def test_a_lease_keeps_a_handle_open(many: list[str]) -> None:
    files = per_worker(h5py.File, most=1)
    with files.lease(many[0]) as first, files.lease(many[1]) as second:
        assert len(files) == 2
        assert files[many[0]] is first
        files[many[2]]
        assert files[many[1]] is second
    assert len(files) == 1


def test_one_that_was_closed_is_opened_again(many: list[str], tmp_path: Path) -> None:
    files = per_worker(h5py.File)
    with files[many[0]] as file:
        assert int(file["it"][0]) == 0
    assert int(files[many[0]]["it"][0]) == 0
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    plain = per_worker(open)
    with plain(tmp_path / "a.txt", encoding="utf-8"):
        pass
    assert plain(tmp_path / "a.txt", encoding="utf-8").read() == "a"


def test_it_pickles_and_copies_without_its_handles(many: list[str]) -> None:
    files = per_worker(h5py.File, most=3)
    files[many[0]]
    for other in (pickle.loads(pickle.dumps(files)), copy.deepcopy(files), copy.copy(files)):  # noqa: S301 - our own bytes
        assert len(other) == 0
        assert other._most == 3
        assert other[many[0]] is not files[many[0]]


def test_a_file_that_cannot_be_opened_is_not_remembered(tmp_path: Path) -> None:
    files = per_worker(h5py.File)
    with pytest.raises(FileNotFoundError):
        files(tmp_path / "late.h5", "r")
    h5py.File(tmp_path / "late.h5", "w").close()
    assert files(tmp_path / "late.h5", "r")


def test_wrong_use_is_told() -> None:
    with pytest.raises(TypeError, match="and not an open list"):
        per_worker([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        per_worker(open, most=0)
    with pytest.raises(TypeError, match="hashable"):
        per_worker(dict)({"a": 1})


def test_threads_open_once_or_each_its_own(many: list[str]) -> None:
    def seen_by(files: Any) -> int:
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(files(many[0], "r"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return len({id(file) for file in found})

    opened: list[str] = []

    def counted(*words: str) -> Any:
        opened.append(words[0])
        return h5py.File(*words)

    assert seen_by(per_worker(counted)) == 1
    assert len(opened) == 1
    everybody = per_worker(h5py.File, per_thread=True, most=100)
    barrier = threading.Barrier(4)
    files: list[Any] = []

    def meet() -> None:
        files.append(everybody(many[0], "r"))
        barrier.wait(20)

    threads = [threading.Thread(target=meet) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len({id(file) for file in files}) == 4


def test_a_child_leaves_what_the_parent_writes_alone(tmp_path: Path) -> None:
    """The child, which had inherited a half-written file, ends in every way; the parent's file is whole and written once."""
    text = tmp_path / "log.txt"
    files, plain = per_worker(h5py.File), per_worker(open)
    written = files(tmp_path / "new.h5", "w")
    written["a"] = np.arange(1000)
    lines = plain(text, "w", encoding="utf-8")
    lines.write("once\n")
    for finish in ("used", "dropped"):
        child = os.fork()
        if child == 0:
            if finish == "used":
                plain(tmp_path / "other", "w")
                files(tmp_path / "other.h5", "w").close()
            del files, plain, written, lines
            gc.collect()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    written["b"] = np.arange(1000)
    files.close()
    plain.close()
    assert text.read_text(encoding="utf-8") == "once\n"
    with h5py.File(tmp_path / "new.h5", "r") as file:
        assert int(file["a"][999]) == int(file["b"][999]) == 999


def test_lmdb_can_be_opened_again_in_a_child(tmp_path: Path) -> None:
    """LMDB refuses to open what the process, as it believes, has open; and the parent's stays as it was."""
    with lmdb.open(str(tmp_path / "db")) as database, database.begin(write=True) as changes:
        changes.put(b"key", b"value")
    environments = per_worker(lmdb.open)
    environments(str(tmp_path / "db"), readonly=True)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            with environments(str(tmp_path / "db"), readonly=True).begin() as reading:
                os._exit(0 if reading.get(b"key") == b"value" else 1)
        assert os.waitpid(child, 0)[1] == 0
    with environments(str(tmp_path / "db"), readonly=True).begin() as reading:
        assert reading.get(b"key") == b"value"


def test_a_worker_closes_at_its_end(tmp_path: Path) -> None:
    """Also what it writes: a child of multiprocessing ends without the interpreter's own exit."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "from crashcart.train import per_worker\n"
        "files = per_worker(open)\n"
        "def work(start):\n"
        "    files(start + '.txt', 'w').write('all of it')\n"
        "if __name__ == '__main__':\n"
        "    for start in ('fork', 'spawn'):\n"
        "        process = multiprocessing.get_context(start).Process(target=work, args=(start,))\n"
        "        process.start(); process.join(60)\n"
        "    work('main')\n",
        encoding="utf-8",
    )
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, check=True, timeout=120)
    assert [(tmp_path / f"{name}.txt").read_text(encoding="utf-8") for name in ("fork", "spawn", "main")] == [
        "all of it"
    ] * 3


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
