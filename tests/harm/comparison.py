"""Runs one healthy program bare and under `crashcart run`, and says what differs; bare twice, to see that it equals itself.

    python tests/harm/comparison.py NAME RESULT.json twice|once [FLAG OF crashcart run...]

Each comparison is a process of its own that adopts every orphan of the program (``PR_SET_CHILD_SUBREAPER``), so that a process
which is left behind is found whatever it did to its environment, its session or its name.

The three runs happen in the same folder, emptied in between, with the same environment, through the same kind of pipes or
pseudo-terminal. What crashcart itself says on the standard error stream (``crashcart: ...``) is removed before the comparison.
"""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import errno
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matrix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matrix import Program

__all__ = ["Comparison", "Outcome", "compare", "compare_apart"]

SOURCE = Path(__file__).parents[2] / "src"
# As `python -m crashcart.cli`, also where crashcart is not installed; nothing of it must reach the job's own sys.path.
CRASHCART = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from crashcart.cli import main; sys.exit(main())",
    "run",
)
_OWN_LINE = re.compile(rb"crashcart: [^\n]*\n")
_RANDOM_NAME = re.compile(r"(^(?:|tmp|.*?[-_]))[a-z0-9_]{8}(?=\.\w+$|$)|\d+")
# As the logs of torch begin their lines: `[W1116 04:37:33.828594804 File.cpp:16]`, `W1116 04:37:01.126000 5205 torch/...]`
_LOG_TIME_AND_PID = re.compile(r"(?<![A-Za-z0-9])([DVIWEFC])\d{4} \d\d:\d\d:\d\d\.\d+(?: +\d+(?= ))?")
_ANSWER = re.compile(r"[^\n\x03\x04]*[\n\x03\x04]")  # a line, Ctrl-C or Ctrl-D: each answers a prompt of its own
_SUBREAPER = 36
_SETTLE_SECONDS = 4.0  # for processes that are on their way out when the command ends
_LAST_OUTPUT_SECONDS = 2.0
_NO_EXIT_CODE = 1000  # it did not end in time
_NOT_COMPARED = {".pyc"}  # their bytes depend on reference counts at compile time; their names are compared


@dataclass(frozen=True)
class Outcome:
    """What one run of a program left in the world."""

    exit_code: int
    stdout: str
    stderr: str
    files: dict[str, str]
    temporary: list[str]
    processes: list[str]
    own_errors: list[str]
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """A program's verdict.

    `equal`; `as documented` (its standard output differs, as its row says); `differs` (by crashcart); `unstable` (bare differs
    from bare); or `failed` (bare is not healthy).
    """

    name: str
    verdict: str
    differences: dict[str, str]
    seconds_bare: float
    seconds_recorded: float


def compare(program: Program, folder: Path, flags: Sequence[str] = (), *, twice: bool = True) -> Comparison:
    """Run a program in `folder`, which must not exist yet, and compare; not `twice`: bare a second time only where it differs."""
    bare = run_once(program, folder)
    if (bare.exit_code if bare.exit_code >= 0 else 128 - bare.exit_code) != program.exit_code:  # as a shell shows it
        shown = f"exit code {bare.exit_code}, expected {program.exit_code}\n{bare.stdout[-1500:]}{bare.stderr[-3000:]}"
        return Comparison(program.name, "failed", {"exit code": shown}, bare.seconds, 0.0)
    recorded = run_once(program, folder, [*CRASHCART, *flags, "--"])
    differences = _differences(bare, recorded)
    again = run_once(program, folder) if twice or differences else bare
    unstable = _differences(bare, again)
    if unstable:
        return Comparison(program.name, "unstable", unstable, bare.seconds, 0.0)
    if recorded.own_errors:
        differences["own errors"] = "\n".join(recorded.own_errors)
    verdict = "differs" if differences else "equal"
    if program.documented and set(differences) == {"stdout"}:
        verdict = "as documented"
    return Comparison(program.name, verdict, differences, min(bare.seconds, again.seconds), recorded.seconds)


def compare_apart(name: str, seconds: float, flags: Sequence[str] = (), *, twice: bool = True) -> Comparison:
    """Compare in a process of its own, for at most so many seconds."""
    with tempfile.TemporaryDirectory(prefix="harm-") as folder:
        result = Path(folder, "result.json")
        command = [sys.executable, __file__, name, str(result), "twice" if twice else "once", *flags]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.terminate()  # it ends what it started
            output, _ = child.communicate()
        if not result.exists():
            return Comparison(name.rpartition(":")[2], "failed", {"comparison": output[-3000:]}, 0.0, 0.0)
        return Comparison(**json.loads(result.read_text(encoding="utf-8")))


def run_once(program: Program, folder: Path, wrapper: Sequence[str] = ()) -> Outcome:
    """Run a program in a fresh folder, bare or under `wrapper`, and look at what it leaves."""
    shutil.rmtree(folder, ignore_errors=True)
    work, home, temporary, elsewhere = (folder / name for name in ("work", "home", "tmp", "elsewhere"))
    for place in (work, home, temporary, elsewhere):
        place.mkdir(parents=True)
    for name in program.files:
        source = Path(program.folder, name)
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, work / name, dirs_exist_ok=True)
        else:
            shutil.copy2(source, work / name)
    command = [*wrapper, *program.command]
    environment = _environment(program, home, temporary, elsewhere)
    started = time.monotonic()
    run = _run_on_a_terminal if program.terminal else _run_with_pipes
    status, stdout, stderr, processes = run(program, command, work, environment)
    seconds = time.monotonic() - started - (_SETTLE_SECONDS if processes else 0.0)
    if wrapper:
        if program.terminal:
            stdout = _OWN_LINE.sub(b"", stdout)
        stderr = _OWN_LINE.sub(b"", stderr)
    return Outcome(
        exit_code=status,
        stdout=_text(program, stdout),
        stderr=_text(program, stderr),
        files={**_files(work, "."), **_files(home, "~")},
        temporary=sorted(_RANDOM_NAME.sub(r"\1*", entry.name) for entry in temporary.iterdir()),
        processes=processes,
        own_errors=_own_errors(elsewhere / "runs"),
        seconds=seconds,
    )


def _environment(program: Program, home: Path, temporary: Path, elsewhere: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CRASHCART", "PYTHON", "PYTEST", "COV_", "VIRTUAL_ENV"))
    }
    fixed = {
        "PATH": os.pathsep.join([os.path.dirname(program.interpreter), os.environ.get("PATH", os.defpath)]),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "CRASHCART_RUNS": str(elsewhere / "runs"),
        "TORCHINDUCTOR_CACHE_DIR": str(elsewhere / "inductor"),
        "TRITON_CACHE_DIR": str(elsewhere / "triton"),
        "XDG_CACHE_HOME": str(elsewhere / "cache"),
        "HF_HOME": str(elsewhere / "huggingface"),
        "MPLCONFIGDIR": str(elsewhere / "matplotlib"),
        "CUDA_CACHE_PATH": str(elsewhere / "cuda"),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "COLUMNS": "100",
        "LINES": "30",
        "TERM": "xterm",
        "LC_ALL": "C.UTF-8",
    }
    if not program.uses_gpu:
        fixed["CUDA_VISIBLE_DEVICES"] = ""
    if not (program.uses_gpu and matrix.has_gpu()):
        fixed["DS_ACCELERATOR"] = "cpu"
    return {**kept, **fixed, **program.environment}


def _run_with_pipes(
    program: Program, command: list[str], work: Path, environment: dict[str, str]
) -> tuple[int, bytes, bytes, list[str]]:
    job = subprocess.Popen(
        command,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL if program.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert job.stdout is not None
    assert job.stderr is not None
    outputs: list[bytearray] = [bytearray(), bytearray()]
    readers = [
        threading.Thread(target=_read_all, args=(stream.fileno(), output), daemon=True)
        for stream, output in zip((job.stdout, job.stderr), outputs, strict=True)
    ]
    for reader in readers:
        reader.start()
    if job.stdin is not None and program.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            job.stdin.write(program.stdin.encode())
            job.stdin.close()
    status = _wait(job.pid, program.timeout_seconds)
    processes = _left_behind()
    for reader in readers:
        reader.join(_LAST_OUTPUT_SECONDS)
    return status, bytes(outputs[0]), bytes(outputs[1]), processes


def _run_on_a_terminal(
    program: Program, command: list[str], work: Path, environment: dict[str, str]
) -> tuple[int, bytes, bytes, list[str]]:
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(work)
            os.execvpe(command[0], command, environment)  # noqa: S606
        finally:
            os._exit(127)
    output = bytearray()
    reader = threading.Thread(target=_read_all, args=(terminal, output), daemon=True)
    reader.start()
    deadline = time.monotonic() + program.timeout_seconds
    for number, answer in enumerate(_ANSWER.findall(program.stdin or ""), 1):
        # Typed after its prompt, as by a person: what is typed earlier is echoed before or after other output, by chance.
        while output.count(matrix.PROMPT) < number and time.monotonic() < deadline and reader.is_alive():
            time.sleep(0.02)
        os.write(terminal, answer.encode())
    status = _wait(pid, program.timeout_seconds)
    processes = _left_behind()
    reader.join(_LAST_OUTPUT_SECONDS)
    os.close(terminal)
    return status, bytes(output), b"", processes


def _read_all(descriptor: int, output: bytearray) -> None:
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError as error:
            if error.errno == errno.EIO:  # the other side of a pseudo-terminal was closed
                return
            raise
        if not data:
            return
        output += data


def _wait(pid: int, seconds: float) -> int:
    """Wait for the command while the orphans that this process adopts stay where they are."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while True:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # it was collected with the orphans
            return _NO_EXIT_CODE
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            _kill_descendants()
            return _NO_EXIT_CODE
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _left_behind() -> list[str]:
    """The processes that are still there some time after the command has ended, zombies of theirs included; ends them."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        _collect_adopted()
        left = list(_descendants())
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    described = sorted(_described(pid, state) for pid, state in left)
    _kill_descendants()
    return described


def _collect_adopted() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants() -> Iterator[tuple[int, str]]:
    """Pid and state of every process below this one."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = (
                    Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                )
                parents[int(entry)] = (int(fields[1]), fields[0])
    for pid, (_, state) in parents.items():
        ancestor, depth = pid, 0
        while ancestor in parents and depth < len(parents):
            ancestor, depth = parents[ancestor][0], depth + 1
            if ancestor == os.getpid():
                yield pid, state
                break


def _described(pid: int, state: str) -> str:
    if state == "Z":
        return "zombie"
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone"


def _kill_descendants() -> None:
    for _ in range(100):
        left = [pid for pid, state in _descendants() if state != "Z"]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _collect_adopted()
        if not left:
            return
        time.sleep(0.02)


def _files(folder: Path, shown: str) -> dict[str, str]:
    """Every file and folder with its permissions and a hash of its bytes."""
    found = {}
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(root, name)
            place = f"{shown}/{path.relative_to(folder)}"
            if path.is_symlink():
                found[place] = f"-> {os.readlink(path)}"
                continue
            mode = oct(path.stat().st_mode & 0o7777)
            if path.is_file() and path.suffix not in _NOT_COMPARED:
                mode += " " + hashlib.sha256(path.read_bytes()).hexdigest()[:16] + f" {path.stat().st_size} bytes"
            found[place] = mode
    return found


def _own_errors(runs: Path) -> list[str]:
    """Errors of hooks that were swallowed in the job's processes."""
    lines = (
        line
        for path in runs.glob("**/inside/*.events")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    )
    return [line for line in lines if '"kind": "error"' in line]


def _text(program: Program, output: bytes) -> str:
    text = _LOG_TIME_AND_PID.sub(r"\1", output.decode(errors="backslashreplace"))
    if program.any_order:
        text = "".join(sorted(text.splitlines(keepends=True)))
    return text


def _differences(expected: Outcome, seen: Outcome) -> dict[str, str]:
    """What is not the same, each with a short diff."""
    differences = {}
    if expected.exit_code != seen.exit_code:
        differences["exit code"] = f"{expected.exit_code} bare, {seen.exit_code} now"
    for name in ("stdout", "stderr"):
        if getattr(expected, name) != getattr(seen, name):
            differences[name] = _short_diff(getattr(expected, name).split("\n"), getattr(seen, name).split("\n"))
    if expected.files != seen.files:
        differences["files"] = _short_diff(
            *([f"{name} {what}" for name, what in sorted(o.files.items())] for o in (expected, seen))
        )
    if expected.temporary != seen.temporary:
        differences["temporary files"] = _short_diff(expected.temporary, seen.temporary)
    if expected.processes != seen.processes:
        differences["processes"] = _short_diff(expected.processes, seen.processes)
    return differences


def _short_diff(expected: list[str], seen: list[str]) -> str:
    if len(expected) + len(seen) > 20_000:
        return f"{len(expected)} lines bare, {len(seen)} now"
    lines = list(difflib.unified_diff(expected, seen, lineterm="", n=1))[2:]
    shown = [line[:300] for line in lines[:30]]
    if len(lines) > len(shown):
        shown.append(f"... {len(lines) - len(shown)} more lines")
    return "\n".join(shown)


def main(name: str, result: str, times: str, *flags: str) -> None:
    """Compare one program and write the verdict as JSON."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)

    def give_up(*_: object) -> None:
        _kill_descendants()
        sys.exit("out of time")

    signal.signal(signal.SIGTERM, give_up)
    program = matrix.program_named(name)
    comparison = compare(program, Path(result).parent / program.name, flags, twice=times == "twice")
    Path(result).write_text(json.dumps(asdict(comparison)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
