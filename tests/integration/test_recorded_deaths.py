"""Real jobs that die under `crashcart run`: the first rank, how it ended and who ended it are told from the record."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.report.terminal import text
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.model import Diagnosis, Finding

pytest.importorskip("torch")
CRASHCART = [sys.executable, "-m", "crashcart.cli", "run", "--quiet"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
PATIENCE = 40.0
# Two ranks that train for ever, unless something happens: the first argument says what, on rank 1, at step 5.
TRAIN = """
    import os, sys, time
    import torch
    import torch.distributed as dist

    what = sys.argv[1]
    dist.init_process_group("gloo")
    rank, restart = dist.get_rank(), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    held = []
    for step in range(10 if what == "finish" else 12 if what == "restart" else 400):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if rank == 1 and step >= 5:
            if what == "crash" or (what == "restart" and restart == 0):
                {}["no such key"]
            elif what == "segfault":
                import ctypes
                ctypes.string_at(0)
            elif what == "exit":
                os._exit(3)
            elif what == "save":
                torch.save(model.state_dict(), "no/such/folder/model.pt")
            elif what == "fill":
                torch.save(torch.zeros(1 << 24), "model.pt")
            elif what == "open":
                held.append([open(os.devnull) for _ in range(20)])
            elif what == "eat":
                held.append(bytearray(b"x" * (64 << 20)))
            elif what == "eat slowly":
                held.append(bytearray(b"x" * (4 << 20)))
        time.sleep(0.1)
    dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRASHCART_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    return tmp_path


@contextlib.contextmanager
def started(folder: Path, *command: str, grace: int = 30, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "seen").open("wb") as seen:
        job = subprocess.Popen(
            [*CRASHCART, "--grace", str(grace), "--", *command], **{"stdout": seen, "stderr": seen, **more}
        )
        try:
            yield job
            job.wait(PATIENCE)
        finally:
            for pid in [job.pid, *processes(folder)]:
                if job.poll() is None:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            job.wait(PATIENCE)


def training(what: str, *flags: str) -> list[str]:
    return [*TORCHRUN, *flags, "train.py", what]


def ran(folder: Path, *command: str, **more: Any) -> Diagnosis:
    with started(folder, *command, **more):
        pass
    return told(folder)


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    try:
        lines = (the_run(folder) / "recording" / "events.jsonl").read_text().splitlines()
    except (OSError, ValueError):
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def processes(folder: Path, *roles: str) -> dict[int, int | None]:
    """Ranks by pid, of processes of these roles."""
    told = {event["pid"]: (event["role"], event["rank"]) for event in events(folder) if event["kind"] == "process"}
    return {pid: rank for pid, (role, rank) in told.items() if not roles or role in roles}


def told(folder: Path) -> Diagnosis:
    return why(str(the_run(folder)))


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def trains(folder: Path) -> None:
    """Wait until both ranks have made some steps and are known."""
    until(lambda: b"step 4 " in (folder / "seen").read_bytes() and len(processes(folder, "rank")) == 2)


def pid_of(folder: Path, rank: int) -> int:
    return next(pid for pid, one in processes(folder, "rank").items() if one == rank)


def finding(diagnosis: Diagnosis, cause: str) -> Finding:
    return next(one for one in diagnosis.findings if one.cause == cause)


def words(one: Finding) -> str:
    """What a finding says from the record, with its evidence."""
    signs = [sign for sign in one.signs if any(item.source == "recorder" for item in sign.evidence)]
    return "\n".join(part for sign in signs for part in (sign.says, *(item.quote for item in sign.evidence)))


def blamed(diagnosis: Diagnosis) -> list[str]:
    return [one.cause for one in diagnosis.findings if one.role == "cause"]


@pytest.mark.parametrize(
    ("what", "cause", "says"),
    [
        ("crash", "code/bug", "rank 1 raised KeyError at"),
        ("segfault", "code/bug", "ended by SIGSEGV, a segmentation fault in the phase 'train'"),
        ("exit", "code/bug", "ended with exit code 3, without an exception"),
        ("save", "checkpoint/save-failed", "rank 1 raised RuntimeError while it wrote a checkpoint"),
    ],
)
def test_the_rank_that_fails_first_is_named_and_the_other_is_its_echo(
    folder: Path, what: str, cause: str, says: str
) -> None:
    diagnosis = ran(folder, *training(what))
    assert diagnosis.findings[0].cause == cause
    assert diagnosis.findings[0].level == "did"
    assert diagnosis.ending.first_rank == 1
    assert says in words(diagnosis.findings[0])
    echo = finding(diagnosis, "distributed/peer-died")
    assert echo.role == "echo"
    assert "after rank 1: its echo" in words(echo)


def test_sigkill_of_a_rank_from_outside_is_told_by_exclusion(folder: Path) -> None:
    with started(folder, *training("train")):
        trains(folder)
        os.kill(pid_of(folder, 1), signal.SIGKILL)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("outside/user", 1)
    assert "rank 1 was killed by SIGKILL from outside" in words(diagnosis.findings[0])
    assert "oom_kill of the whole machine: stayed at" in words(diagnosis.findings[0])
    assert not [one for one in diagnosis.findings if one.cause.startswith("host-memory/")]
    assert "host-memory/oom-kill" in [one.cause for one in diagnosis.ruled_out]
    assert "Find who sends SIGKILL" in text(diagnosis)
    assert "tmux" not in text(diagnosis)


LOADER = """
    import time
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(DataLoader(torch.randn(4000, 8), batch_size=8, num_workers=2)):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.1)
"""


def test_sigkill_of_a_loader_worker_is_neither_memory_nor_shared_memory(folder: Path) -> None:
    (folder / "train.py").write_text(textwrap.dedent(LOADER))
    with started(folder, sys.executable, "train.py"):
        until(lambda: b"step 4 " in (folder / "seen").read_bytes() and len(processes(folder, "loader worker")) == 2)
        os.kill(next(iter(processes(folder, "loader worker"))), signal.SIGKILL)
    diagnosis = told(folder)
    assert diagnosis.findings[0].cause == "outside/user"
    assert "loader worker of rank 0 was killed by SIGKILL from outside" in words(diagnosis.findings[0])
    assert not {"host-memory/oom-kill", "host-memory/shm"} & set(blamed(diagnosis))


def test_a_kill_of_the_whole_job_blames_no_rank(folder: Path) -> None:
    with started(folder, *training("train")):
        trains(folder)
        for pid in [*processes(folder, "launcher"), *processes(folder, "rank")]:
            os.kill(pid, signal.SIGKILL)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("outside/user", None)
    assert "the whole job, its launcher too, was killed by SIGKILL" in words(diagnosis.findings[0])


@pytest.mark.parametrize(("number", "cause"), [(signal.SIGINT, "outside/user"), (signal.SIGTERM, "outside/preempted")])
def test_a_signal_that_asks_the_job_to_stop_is_told_with_its_sender(
    folder: Path, number: signal.Signals, cause: str
) -> None:
    # torchrun does not always get its ranks to end on an interrupt: then the job is killed after its grace.
    with started(folder, *training("train"), grace=4) as job:
        trains(folder)
        job.send_signal(number)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.state) == (cause, "stopped")
    assert diagnosis.ending.first_rank is None
    assert f"{number.name} was sent to the job by" in words(diagnosis.findings[0])
    assert f"(pid {os.getpid()})" in words(diagnosis.findings[0])
    if number == signal.SIGINT:  # whoever stopped it wants no more than a line
        assert text(diagnosis).startswith("The run was stopped: SIGINT was sent")
        assert "What to do" not in text(diagnosis)


def test_sigterm_at_the_launcher_itself_is_told_too(folder: Path) -> None:
    with started(folder, *training("train")):
        trains(folder)
        os.kill(next(iter(processes(folder, "launcher"))), signal.SIGTERM)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("outside/preempted", None)
    assert "SIGTERM reached the launcher before anything had failed" in words(diagnosis.findings[0])


def test_a_hang_up_that_reaches_the_job(folder: Path) -> None:
    code = "import os, signal; import torch; os.kill(os.getpid(), signal.SIGHUP)"
    diagnosis = ran(folder, sys.executable, "-c", code)
    assert (diagnosis.findings[0].cause, diagnosis.ending.signal) == ("outside/user", "SIGHUP")
    assert "tmux" in text(diagnosis)


def test_control_c_on_a_terminal(folder: Path) -> None:
    master, slave = pty.openpty()
    job = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *CRASHCART, "--", *training("train")], stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):
        while piece := os.read(master, 4096):
            seen += piece
            if b"step 4 " in seen:
                os.write(master, b"\x03")
                seen = b""
    job.wait(PATIENCE)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.state) == ("outside/user", "stopped")
    assert "SIGINT reached" in words(diagnosis.findings[0])


# A launcher that clears up with SIGKILL as soon as one of its ranks has failed.
LAUNCHER = """
    import os, subprocess, sys, time
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py", "crash"],
            env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]},
        )
        for r in range(2)
    ]
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.005)
    for rank in ranks:
        rank.kill()
    sys.exit(max(rank.wait() for rank in ranks))
"""


def test_the_launchers_own_kill_is_an_echo(folder: Path) -> None:
    # Rank 0 is kept from noticing by itself, so that it is the launcher's signal that ends it.
    (folder / "launch.py").write_text(textwrap.dedent(LAUNCHER))
    program = textwrap.dedent(TRAIN).replace("dist.all_reduce(parameter.grad)", "step")
    (folder / "train.py").write_text(program)
    port = str(20000 + os.getpid() % 20000)
    diagnosis = ran(folder, sys.executable, "launch.py", port)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("code/bug", 1)
    assert "ended by SIGKILL" in words(finding(diagnosis, "distributed/peer-died"))
    assert blamed(diagnosis) == ["code/bug"]


def test_what_ended_an_earlier_attempt_stays_in_the_record(folder: Path) -> None:
    try:
        diagnosis = ran(folder, *training("restart", "--max-restarts", "3"))
    except subprocess.TimeoutExpired:
        pytest.skip("the launcher's own restart did not come up: its ranks did not find each other again")
    if diagnosis.ending.exit_code:
        pytest.skip("the launcher's own restarts failed one after another: nothing to tell of a run that ended well")
    assert diagnosis.ending.state == "finished"
    assert blamed(diagnosis) == []
    first = finding(diagnosis, "code/bug")
    assert first.role == "contributing"
    assert "rank 1 raised KeyError" in words(first)
    assert "after which the job was started again" in words(first)


@pytest.mark.parametrize("command", [["train.py", "finish"]])
def test_a_run_that_is_well_is_blamed_for_nothing(folder: Path, command: list[str]) -> None:
    diagnosis = ran(folder, *TORCHRUN, *command)
    assert diagnosis.ending.state == "finished"
    assert diagnosis.findings == ()


# Memory limits. The kernel kills only under a control group; those can be made as root, or where systemd or a scheduler has
# given the user a part of the tree. RLIMIT_AS works everywhere, but refuses memory instead of killing.
@pytest.fixture
def limit() -> Iterator[Callable[[int], dict[str, Any]]]:
    """How to start a process under a limit of so many bytes; skips, with the reason, where nothing can do it."""
    made: list[Path] = []

    def start_under(size: int) -> dict[str, Any]:
        group, name = _own_group()
        inner = group / f"crashcart-test-{os.getpid()}"
        try:
            inner.mkdir()
            made.append(inner)
            (inner / name).write_text(str(size))
        except OSError as problem:
            pytest.skip(f"no control group with a memory limit can be made here: {problem}")
        return {"preexec_fn": lambda: (inner / "cgroup.procs").write_text(str(os.getpid()))}

    yield start_under
    for inner in made:
        with contextlib.suppress(AssertionError, OSError):
            until(partial(_is_empty, inner))
        inner.rmdir()


def _is_empty(group: Path) -> bool:
    return not (group / "cgroup.procs").read_text()


def _own_group() -> tuple[Path, str]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
    path = Path("/proc/self/cgroup").read_text().splitlines()[-1].split(":", 2)[2]
    return Path("/sys/fs/cgroup" + path), "memory.max"


def test_the_kernels_kill_under_a_memory_limit(folder: Path, limit: Callable[[int], dict[str, Any]]) -> None:
    diagnosis = ran(folder, *training("eat"), **limit(1200 << 20))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/oom-kill", 1)
    assert diagnosis.findings[0].level == "did"
    assert "oom_kill of the job's control group: from 0 to 1" in words(diagnosis.findings[0])
    assert "outside/user" not in blamed(diagnosis)


def test_memory_that_climbs_until_the_kill_is_a_leak(folder: Path, limit: Callable[[int], dict[str, Any]]) -> None:
    diagnosis = ran(folder, *training("eat slowly"), **limit(1300 << 20))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/leak", 1)
    assert "without levelling off" in words(diagnosis.findings[0])


def test_memory_that_is_refused(folder: Path) -> None:
    size = 4 << 30
    diagnosis = ran(folder, *training("eat"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/oom-kill", 1)
    assert "rank 1 was refused host memory" in words(diagnosis.findings[0])


def test_open_files_are_counted_against_their_limit(folder: Path) -> None:
    diagnosis = ran(folder, *training("open"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)))
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/fds", 1)
    assert "open files where 512 are allowed" in words(diagnosis.findings[0])


def test_a_full_disk_is_seen(folder: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(_with_small_disk("true"), check=False).returncode:
        pytest.skip("no file system of limited size can be mounted here, not even in a namespace of our own")
    (folder / "small").mkdir()
    inner = " ".join([*CRASHCART, "--", *training("fill")])
    script = f"mount -t tmpfs -o size=32m tmpfs small && cp train.py small && cd small && {inner}"
    subprocess.run(_with_small_disk(script), check=False, timeout=PATIENCE, capture_output=True)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("host-memory/disk-full", 1)
    assert " left when rank 1 raised RuntimeError while it wrote " in words(diagnosis.findings[0])


def _with_small_disk(script: str) -> list[str]:
    """A shell that may mount without harm to anybody, as root or not."""
    return ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "sh", "-c", script]
