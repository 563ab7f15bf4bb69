"""Many generated inputs, in parallel: ``python tests/properties/campaign.py 20000 --seed 7``.

Each worker is a process that tries some hundred inputs by calling the verbs in itself, under limits of time and memory, and
is then replaced. What fails is made smaller and left in a file, one for each kind of failure, to be tried again:
``python tests/properties/campaign.py --again FILE``. An input that hangs or kills its worker is written down before it is tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from generated_calls import call_programs, large_programs  # noqa: E402 - its folder is on the path from here on
from generated_folders import checkpoints, file_names, run_folders  # noqa: E402
from generated_jobs import jobs, json_configs, makefiles, toml_configs, yaml_configs  # noqa: E402
from generated_logs import kernel_logs, logs, tame_logs  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from properties import Failure, Input, Report, examine, limit_memory, load, save, spellings  # noqa: E402
from real_texts import real_plans  # noqa: E402

from crashcart.errors import DEBUG  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

__all__ = ["KINDS", "Found", "campaign"]

AT_ONCE = 200  # inputs of one worker
PATIENCE = 40.0  # seconds for one call; the limit on its CPU time comes long before, also on a busy machine
SMALLER_SECONDS = 15.0
_ANOTHER = 1 << 40  # from the seed of a worker to that of the one which takes its place
_CODES = ("0", "1", "137", "-9", "139", "143", "255", "256", "-65")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@st.composite
def _log(draw: st.DrawFn) -> Input:
    name = draw(file_names)
    text = draw(logs)
    encoding = draw(st.sampled_from(("utf-8",) * 8 + ("utf-16", "latin-1", "utf-32")))
    files: dict[str, Any] = {name: _bytes(text) if encoding == "utf-8" else text.encode(encoding, "replace")}
    words = draw(st.sampled_from(([], [], ["--exit-code", draw(st.sampled_from(_CODES))])))
    if draw(st.integers(0, 3)) == 0:
        files["cfg/c.yaml"] = _bytes(draw(yaml_configs))
        words = [*words, "--config", "cfg/c.yaml"]
    shown = [["why", "--json", "--html", "page.html"], ["why"]]
    return Input("log", files, [[*call, *words, "--", f"./{name}"] for call in shown[: draw(st.integers(1, 2))]])


@st.composite
def _kernel(draw: st.DrawFn) -> Input:
    files: dict[str, Any] = {"train.log": _bytes(draw(logs)), "k/dmesg.txt": _bytes(draw(kernel_logs))}
    return Input("kernel", files, [["why", "--json", "train.log", "--kernel-log", "k/dmesg.txt"]])


@st.composite
def _spelling(draw: st.DrawFn) -> Input:
    chosen = draw(st.lists(st.sampled_from(sorted(spellings)), min_size=2, max_size=3, unique=True))
    return Input("spelling", {"train.log": _bytes(draw(tame_logs))}, [["why", "--json", "train.log"]], spelled=chosen)


@st.composite
def _job(draw: st.DrawFn) -> Input:
    files: dict[str, Any] = {name: _bytes(text) for name, text in draw(jobs).items()}
    target = draw(
        st.sampled_from(
            ("train.sh", "train.sh", "train.sh", "config.yaml", ".", "train.py", "Makefile", "cfg.json", "cfg.toml")
        )
    )
    if target in {"Makefile", "."}:
        files["Makefile"] = _bytes(draw(makefiles))
    if target == "cfg.json":
        files["cfg.json"] = _bytes(draw(json_configs))
    if target == "cfg.toml":
        files["cfg.toml"] = _bytes(draw(toml_configs))
    return Input("job", files, [["check", "--json", "--show-job", target], ["check", target], ["why", "--json", "."]][: draw(st.integers(1, 3))])  # fmt: skip


@st.composite
def _calls(draw: st.DrawFn) -> Input:
    return Input("calls", {"train.py": _bytes(draw(call_programs))}, [["check", "--json", "train.py"]])


@st.composite
def _large(draw: st.DrawFn) -> Input:
    return Input("large", {"train.py": _bytes(draw(large_programs))}, [["check", "--json", "train.py"]])


@st.composite
def _plan(draw: st.DrawFn) -> Input:
    plan = draw(real_plans())
    files: dict[str, Any] = {name: _bytes(text) for name, text in plan.files.items()}
    return Input("plan", files, [["check", "--json", "--show-job", *plan.arguments]])


@st.composite
def _run(draw: st.DrawFn) -> Input:
    files: dict[str, Any] = {f"runs/one/{name}": content for name, content in draw(run_folders()).items()}
    calls = [["why", "--json", "runs/one"], ["runs", "--json"], ["runs"], ["why"]]
    return Input("run", files, calls[draw(st.integers(0, 1)) :], {"CRASHCART_RUNS": "runs"})


@st.composite
def _checkpoint(draw: st.DrawFn) -> Input:
    return Input("checkpoint", dict(draw(checkpoints())), [["why", "--json", "."]])


KINDS: dict[str, tuple[SearchStrategy[Input], int]] = {  # with the share of each in a hundred
    "log": (_log(), 23),
    "calls": (_calls(), 5),
    "large": (_large(), 2),
    "kernel": (_kernel(), 10),
    "spelling": (_spelling(), 15),
    "job": (_job(), 12),
    "plan": (_plan(), 13),
    "run": (_run(), 12),
    "checkpoint": (_checkpoint(), 8),
}


class Found:
    """What a campaign found: failures by key, and the extremes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tried = 0
        self.failures: dict[str, dict[str, Any]] = {}
        self.slowest: list[tuple[float, str]] = []
        self.largest: list[tuple[int, str]] = []

    def add(self, row: dict[str, Any]) -> None:
        """Take a line of a worker's report."""
        self.tried += 1
        self.slowest = sorted([*self.slowest, (row["seconds"], row["place"])], reverse=True)[:5]
        self.largest = sorted([*self.largest, (row["growth"], row["place"])], reverse=True)[:5]
        for key, detail in row["failures"]:
            self.note(key, detail, row["place"])

    def note(self, key: str, detail: str, place: str) -> None:
        """Count a failure; the first of its kind is kept."""
        told = self.failures.setdefault(key, {"count": 0, "detail": detail, "place": place})
        told["count"] += 1

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.tried} inputs, {len(self.failures)} kinds of failures"
        yield "slowest: " + ", ".join(f"{seconds:.2f} s ({place})" for seconds, place in self.slowest)
        yield "largest: " + ", ".join(f"{growth >> 20} MB ({place})" for growth, place in self.largest)
        for key, told in sorted(self.failures.items(), key=lambda item: -item[1]["count"]):
            yield f"{told['count']:6d}  {key}\n        {told['place']}\n        " + str(told["detail"]).replace(
                "\n", "\n        "
            )


def _try_all(kind: str, count: int, number: int, report: Path, *, smaller: bool) -> None:
    """In a worker: generate, try, write a line for each."""
    limit_memory()
    _without_this_machine()
    work = report.with_suffix("")
    work.mkdir()
    os.environ[DEBUG] = "1"
    strategy, _ = KINDS[kind]
    state = {"at": 0}
    kept: dict[str, Input] = {}
    examine(
        Input("log", {"a.log": b"step 1 loss 1.0\nValueError: x\n"}, [["why", "--json", "a.log"], ["why", "a.log"]]),
        work / "warm",
    )

    with open(report, "w", encoding="utf-8", errors="replace", buffering=1) as lines:

        @seed(number)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def attempt(tried: Input) -> None:
            state["at"] += 1
            place = work / f"{state['at']}.json"
            save(tried, place)
            outcome = examine(tried, work / str(state["at"]))
            shutil.rmtree(work / str(state["at"]), ignore_errors=True)
            new = [failure for failure in outcome.failures if failure.key not in kept]
            kept.update({failure.key: tried for failure in new})
            if not new and outcome.seconds < 1 and outcome.growth < 50 << 20:
                place.unlink()
            lines.write(json.dumps(_row(outcome, place)) + "\n")

        attempt()
        for key, tried in kept.items() if smaller else ():
            place = report.parent / "smaller" / f"{_slug(key)}.json"
            if not place.exists():  # another worker was first
                save(_smaller(tried, key, work / "smaller-tried"), place)
            lines.write(json.dumps({"smaller": key, "place": str(place)}) + "\n")
    shutil.rmtree(work / "warm", ignore_errors=True)


def _row(outcome: Report, place: Path) -> dict[str, Any]:
    return {
        "place": str(place),
        "seconds": outcome.seconds,
        "growth": outcome.growth,
        "failures": [tuple(one) for one in outcome.failures],
    }


def _without_this_machine() -> None:
    """As in every test: what is said of a job does not depend on the machine."""
    from crashcart.readers import plan

    plan.machine_facts = lambda case: None  # type: ignore[attr-defined] # noqa: ARG005 - its own name


def _slug(key: str) -> str:
    return re.sub(r"[^\w.-]+", "-", key)[:80]


def _smaller(tried: Input, key: str, folder: Path) -> Input:
    """The input with as many lines taken out as the failure bears, for a limited time."""
    until = time.monotonic() + SMALLER_SECONDS

    def fails(candidate: Input) -> bool:
        return time.monotonic() < until and any(failure.key == key for failure in examine(candidate, folder).failures)

    best = tried
    for name in list(best.files):
        candidate = replace(best, files={other: content for other, content in best.files.items() if other != name})
        best = candidate if fails(candidate) else best
    for name, content in list(best.files.items()):
        if not isinstance(content, bytes):
            continue
        lines, size = content.split(b"\n"), content.count(b"\n") + 1
        while size >= 1 and time.monotonic() < until:
            at = 0
            while at < len(lines):
                fewer = lines[:at] + lines[at + size :]
                candidate = replace(best, files={**best.files, name: b"\n".join(fewer)})
                if fails(candidate):
                    best, lines = candidate, fewer
                else:
                    at += size
            size //= 2
    return best


def campaign(
    count: int, first_seed: int, folder: Path, *, kinds: list[str] | None = None, processes: int = 2, smaller: bool = True
) -> Found:
    """Try that many inputs, in that many processes at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    found = Found(folder)
    waiting = list(_portions(count, first_seed, kinds or list(KINDS)))
    running: list[_Worker] = []
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(_Worker(*waiting.pop(0), folder, smaller=smaller))
        time.sleep(0.05)
        for worker in list(running):
            if worker.is_over(found):
                running.remove(worker)
                waiting += worker.left
    return found


def _portions(count: int, first_seed: int, kinds: list[str]) -> Iterator[tuple[str, int, int]]:
    whole = sum(KINDS[kind][1] for kind in kinds)
    number = first_seed * 1_000_003
    for kind in kinds:
        left = -(-count * KINDS[kind][1] // whole)
        while left > 0:
            yield kind, min(left, AT_ONCE), number
            left -= AT_ONCE
            number += 1


class _Worker:
    """A process that tries a portion; watched from outside."""

    def __init__(self, kind: str, count: int, number: int, folder: Path, *, smaller: bool) -> None:
        self.portion = (kind, count, number)
        self.left: list[tuple[str, int, int]] = []  # what another has to try, where this one died
        self.report = folder / f"{kind}-{number}.jsonl"
        shutil.rmtree(self.report.with_suffix(""), ignore_errors=True)
        self.report.unlink(missing_ok=True)
        command = [
            sys.executable,
            str(Path(__file__)),
            "--worker",
            kind,
            str(count),
            "--seed",
            str(number),
            "--folder",
            str(self.report),
        ]
        command += [] if smaller else ["--as-found"]
        self.alive = folder / f"{kind}-{number}.alive"
        self.alive.touch()
        environment = {
            **os.environ,
            DEBUG: "1",
            "CAMPAIGN_ALIVE": str(self.alive),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        }
        self.errors = open(folder / f"{kind}-{number}.err", "w+b")  # noqa: SIM115 - closed when it is over
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, env=environment
        )

    def is_over(self, found: Found) -> bool:
        """Whether it has ended, or had to be ended; then its report is taken."""
        code = self.process.poll()
        hangs = code is None and time.time() - self.alive.stat().st_mtime > PATIENCE
        if code is None and not hangs:
            return False
        if hangs:
            self.process.kill()
            self.process.wait()
        taken = self._take(found)
        if hangs or code:
            kind, count, number = self.portion
            self.left = [(kind, count - taken - 1, number + _ANOTHER)] if taken + 1 < count else []
            self.errors.seek(0)
            what = "hang" if hangs else f"worker died: {code}"
            found.note(f"{what}", self.errors.read()[-1500:].decode("utf-8", "replace"), str(self._last()))
        self.errors.close()
        Path(self.errors.name).unlink()
        self.alive.unlink()
        return True

    def _take(self, found: Found) -> int:
        before = found.tried
        for line in self.report.read_text(encoding="utf-8", errors="replace").splitlines() if self.report.exists() else ():
            row = json.loads(line)
            if "smaller" in row:
                found.failures[row["smaller"]]["place"] = row["place"]
            else:
                found.add(row)
        return found.tried - before

    def _last(self) -> Path:
        """The input at which it was: written down before it is tried."""
        work = self.report.with_suffix("")
        numbers = [int(path.stem) for path in work.glob("*.json")]
        return work / f"{max(numbers, default=0)}.json"


def _again(path: Path) -> int:
    _without_this_machine()
    os.environ[DEBUG] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        outcome = examine(load(path), Path(scratch) / "x")
    for failure in outcome.failures or [Failure("nothing fails", "")]:
        sys.stdout.write(f"{failure.key}\n{failure.detail}\n")
    sys.stdout.write(f"{outcome.seconds:.2f} s, {outcome.growth >> 20} MB\n")
    return 1 if outcome.failures else 0


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / f"crashcart-campaign-{os.getuid()}")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try one input again")
    parser.add_argument("--as-found", action="store_true", help="do not make what fails smaller")
    parser.add_argument("--worker", choices=sorted(KINDS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.again:
        return _again(options.again)
    if options.worker:
        _try_all(options.worker, options.count, options.seed, options.folder, smaller=not options.as_found)
        return 0
    found = campaign(
        options.count,
        options.seed,
        options.folder,
        kinds=options.kind,
        processes=options.processes,
        smaller=not options.as_found,
    )
    sys.stdout.write("\n".join(found.lines()) + "\n")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(_main())
