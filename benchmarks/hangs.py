"""Programs that hang, and healthy ones that are silent for long: when `crashcart run` announces a hang, if it does.

    python benchmarks/hangs.py [--only NAME,...] [--healthy] [--hanging] [--seconds 60] [--jobs 1] [--device cuda]

Each program is a small real training job with steps of 0.1 s that writes down when it made its last step. A hanging one
must be announced within 20 s of it; a healthy one says nothing for more than 40 s (or the given ``--seconds`` times 2/3) and must
never be announced. ``later`` marks hangs that cannot be proven: they need the longer limits, which may be minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from crashcart.verbs.why import why

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
WITHIN = 20.0  # seconds

HEAD = """
import os, queue, socket, subprocess, sys, threading, time
import torch
torch.set_num_threads(1)
SILENCE, DEVICE = float(os.environ["SILENCE"]), os.environ["DEVICE"]
torch.manual_seed(0)
model = torch.nn.Linear(8, 8).to(DEVICE)
rank = int(os.environ.get("RANK", "0"))
def steps(count, seconds=0.1):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(4, 8, device=DEVICE)).pow(2).mean().backward()
        optimizer.step()
        time.sleep(seconds)
        with open(f"last-{rank}", "w") as file:
            file.write(str(time.time()))
"""
SINGLE = HEAD + "optimizer = torch.optim.SGD(model.parameters(), 0.01)\n"
GLOO = (
    HEAD
    + """
import datetime
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
"""
)
# A server that accepts connections and never answers, in a process outside of the job.
SILENT_SERVER = "import os; os.environ.update(WANDB_BASE_URL=os.environ['SERVER'], WANDB_API_KEY='0' * 40)\n"


class Program(NamedTuple):
    """A program, how it is started, and what is expected: ``early``, ``later``, or ``never``."""

    code: str
    expected: str
    ranks: bool = False
    act: str = ""  # what is done to it from outside


HANGING = {
    "queue-join-dead-thread": Program(
        SINGLE
        + """
work = queue.Queue()
def consume():
    work.get()
    raise ValueError("a bad sample")
threading.Thread(target=consume, daemon=True).start()
steps(30)
work.put(1); work.put(2)
work.join()
""",
        "early",
    ),
    "queue-get-dead-producer": Program(
        SINGLE
        + """
batches = queue.Queue(2)
def produce():
    for number in range(30):
        batches.put(number)
    raise ValueError("a bad file")
threading.Thread(target=produce, daemon=True).start()
while True:
    batches.get()
    steps(1)
""",
        "early",
    ),
    "queue-get-with-time-out": Program(
        SINGLE
        + """
batches = queue.Queue(2)
def produce():
    for number in range(30):
        batches.put(number)
threading.Thread(target=produce, daemon=True).start()
while True:
    try:
        batches.get(timeout=1)
    except queue.Empty:
        continue
    steps(1)
""",
        "early",
    ),
    "lock-of-dead-thread": Program(
        SINGLE
        + """
lock = threading.Lock()
def hold():
    lock.acquire()
threading.Thread(target=hold).start()
steps(30)
with lock:
    steps(1)
""",
        "early",
    ),
    "two-locks": Program(
        SINGLE
        + """
first, second = threading.Lock(), threading.Lock()
def other():
    with second:
        time.sleep(3)
        with first:
            pass
steps(30)
threading.Thread(target=other, daemon=True).start()
with first:
    time.sleep(1)
    with second:
        steps(1)
""",
        "early",
    ),
    "loader-worker-waits": Program(
        SINGLE
        + """
lock = threading.Lock()
class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if index == 120:
            lock.acquire(); lock.acquire()
        return torch.randn(8)
for batch in torch.utils.data.DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
    steps(1)
""",
        "early",
    ),
    "tracker-init": Program(
        SINGLE
        + SILENT_SERVER
        + """
steps(30)
import wandb
wandb.init(project="robot", settings=wandb.Settings(init_timeout=600))
""",
        "early",
    ),
    "tracker-finish": Program(
        SINGLE
        + """
import wandb
run = wandb.init(project="robot", mode="offline", dir=".")
steps(30)
run.log({"loss": 1.0})
import psutil, signal
core = [one for one in psutil.Process().children(recursive=True) if "wandb" in one.name()]
for one in core:
    one.send_signal(signal.SIGSTOP)  # it never answers
run.finish()
""",
        "early",
    ),
    "rank-in-a-lock": Program(
        GLOO
        + """
steps(30)
lock = threading.Lock()
lock.acquire()
if rank == 1:
    lock.acquire()
dist.barrier()
""",
        "early",
        ranks=True,
    ),
    "rank-waits-for-dead-thread": Program(
        GLOO
        + """
steps(30)
work = queue.Queue()
if rank == 0:
    threading.Thread(target=lambda: 1 / 0).start()
    work.get()
steps(10)
""",
        "early",
        ranks=True,
    ),
    "ranks-in-different-collectives": Program(
        GLOO
        + """
steps(30)
if rank == 0:
    dist.broadcast(torch.zeros(3), 1)
else:
    dist.barrier()
""",
        "early",
        ranks=True,
    ),
    "rank-left-early": Program(
        GLOO
        + """
steps(30)
if rank == 1:
    sys.exit(0)
store = dist.distributed_c10d._get_default_store()
dist.distributed_c10d._store_based_barrier(0, store, "left", 2, datetime.timedelta(seconds=600))
""",
        "early",
        ranks=True,
    ),
    "rank-stopped": Program(GLOO + "steps(100000)\n", "early", ranks=True, act="stop rank 1"),
    "pool-lost-its-task": Program(
        SINGLE
        + """
import multiprocessing
def die(_):
    os.kill(os.getpid(), 9)
with multiprocessing.get_context("fork").Pool(1) as pool:
    steps(30)
    pool.apply_async(die, (1,)).get()
""",
        "early",
    ),
    "future-of-dead-pool": Program(
        SINGLE
        + """
import concurrent.futures
steps(30)
future = concurrent.futures.Future()
threading.Thread(target=lambda: 1 / 0).start()
future.result()
""",
        "early",
    ),
    "loop-on-one-rank": Program(
        GLOO
        + """
steps(30)
while rank == 1:
    pass
dist.barrier()
""",
        "later",
        ranks=True,
    ),
}
HEALTHY = {
    "sleeps": Program(SINGLE + "steps(30); time.sleep(SILENCE); steps(10)\n", "never"),
    "event-as-sleep": Program(SINGLE + "steps(30); threading.Event().wait(SILENCE); steps(10)\n", "never"),
    "actors-sleep": Program(
        SINGLE
        + """
import multiprocessing
def act(connection):
    while True:
        time.sleep(SILENCE if connection.recv() else 0.05)
        connection.send(1)
here, there = multiprocessing.Pipe()
actor = multiprocessing.get_context("fork").Process(target=act, args=(there,), daemon=True)
actor.start()
for number in range(30):
    here.send(number == 25); here.recv(); steps(1)
""",
        "never",
    ),
    "remote-actors": Program(
        SINGLE
        + """
server = os.environ["SERVER"].rpartition("//")[2].split(":")
data = queue.Queue()
def receive():
    connection = socket.create_connection((server[0], int(server[1]) + 1))
    while True:
        data.put(connection.recv(100))
threading.Thread(target=receive, daemon=True).start()
for number in range(30):
    data.get(); steps(1)
""",
        "never",
    ),
    "slow-download": Program(
        SINGLE
        + """
server = os.environ["SERVER"].rpartition("//")[2].split(":")
connection = socket.create_connection((server[0], int(server[1]) + 2))
steps(30)
connection.recv(1 << 20, socket.MSG_WAITALL)
steps(10)
""",
        "never",
    ),
    "input-through-a-pipe": Program(SINGLE + "steps(30); input(); steps(10)\n", "never", act="answer"),
    "slow-start": Program(SINGLE + "time.sleep(SILENCE); steps(10)\n", "never"),
    "compiles": Program(
        SINGLE
        + """
steps(30)
subprocess.run([sys.executable, "-c", f"import time; end = time.time() + {SILENCE}\\nwhile time.time() < end: sum(range(10000))"])
steps(10)
""",
        "never",
    ),
    "checkpoint-in-a-thread": Program(
        SINGLE
        + """
import concurrent.futures
steps(30)
def save():
    end = time.time() + SILENCE
    with open("big", "wb") as file:
        while time.time() < end:
            file.seek(0); file.write(b"x" * 4096); file.flush(); os.fsync(file.fileno()); time.sleep(0.3)
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(save).result()
steps(10)
""",
        "never",
    ),
    "evaluation-on-rank-0": Program(
        GLOO
        + """
steps(30)
if rank == 0:
    end = time.time() + SILENCE
    while time.time() < end:
        sum(range(100000))
dist.barrier()
steps(10)
""",
        "never",
        ranks=True,
    ),
    "one-rank-sleeps": Program(
        GLOO
        + """
steps(30)
if rank == 0:
    time.sleep(SILENCE)
dist.barrier()
steps(10)
""",
        "never",
        ranks=True,
    ),
    "loader-polls-a-server": Program(
        SINGLE
        + """
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if index == 30:
            time.sleep(SILENCE)
        return torch.randn(8)
for batch in torch.utils.data.DataLoader(Slow(), batch_size=2, num_workers=2):
    steps(1)
""",
        "never",
    ),
    "timer-thread": Program(
        SINGLE
        + """
steps(30)
done = threading.Event()
threading.Timer(SILENCE, done.set).start()
done.wait()
steps(10)
""",
        "never",
    ),
    "stopped-and-continued": Program(SINGLE + "steps(60)\n", "never", act="stop and continue"),
    "asks-a-server": Program(
        SINGLE
        + """
import urllib.request
steps(30)
server = os.environ["SERVER"].rpartition("//")[2].split(":")
urllib.request.urlopen(f"http://{server[0]}:{int(server[1]) + 3}", timeout=600).read()
steps(10)
""",
        "never",
    ),
}
# One call that keeps the device busy for long, waited for as programs do.
ON_A_GPU = {
    "long-kernel": Program(
        SINGLE
        + """
steps(30)
begin = time.time(); torch.cuda._sleep(1 << 30); torch.cuda.synchronize()
torch.cuda._sleep(int((1 << 30) * SILENCE / (time.time() - begin))); torch.cuda.synchronize()
steps(10)
""",
        "never",
    ),
    "long-kernel-then-item": Program(
        SINGLE
        + """
steps(30)
begin = time.time(); torch.cuda._sleep(1 << 30); torch.cuda.synchronize()
torch.cuda._sleep(int((1 << 30) * SILENCE / (time.time() - begin)))
print(model(torch.randn(4, 8, device=DEVICE)).sum().item())
steps(10)
""",
        "never",
    ),
}
PROGRAMS = {**HANGING, **HEALTHY, **ON_A_GPU}
# The other side of the programs: a port that never answers, one that sends now and then, one that trickles, one that answers late.
SERVER = """
import socket, sys, threading, time
silence = float(sys.argv[1])
def serve(server, answer):
    while True:
        connection, _ = server.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()
def never(connection):
    time.sleep(1e6)
def now_and_then(connection):
    for number in range(30):
        connection.send(b"x" * 100); time.sleep(silence if number == 25 else 0.05)
    time.sleep(1e6)
def trickle(connection):
    time.sleep(3)
    while True:
        connection.send(b"x" * int((1 << 20) / silence / 2)); time.sleep(0.5)
def late(connection):
    connection.recv(1000); time.sleep(silence)
    connection.send(b"HTTP/1.0 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok"); connection.close()
for first in range(20000, 60000, 7):
    try:
        servers = [socket.create_server(("127.0.0.1", first + number)) for number in range(4)]
    except OSError:
        continue
    break
for server, answer in zip(servers, (never, now_and_then, trickle, late)):
    threading.Thread(target=serve, args=(server, answer)).start()
print(first, flush=True)
"""


def run_program(program: Program, seconds: float, patience: float, device: str) -> tuple[float | None, str]:
    """Seconds from the last step to the announcement, if there was one, and its words."""
    folder = Path(tempfile.mkdtemp(prefix="hangs-"))
    (folder / "train.py").write_text(textwrap.dedent(program.code))
    silence = 0.7 * seconds + 5
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(silence)], stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip() if server.stdout else ""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("CRASHCART_")}
    environment = {
        **plain, "OMP_NUM_THREADS": "1", "CRASHCART_RUNS": str(folder / "runs"), "SILENCE": str(silence),
        "SERVER": f"http://127.0.0.1:{port}", "WANDB_SILENT": "true", "DEVICE": device,
    }  # fmt: skip
    launcher = TORCHRUN if program.ranks else (sys.executable,)
    flags = ("--hang-seconds", str(seconds), "--grace", "2")
    with (folder / "said").open("w") as said:
        job = subprocess.Popen(
            [sys.executable, "-m", "crashcart", "run", *flags, "--", *launcher, "train.py"],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            return watch_job(job, folder, program, silence, patience)
        finally:
            end_job(job)
            server.kill()
            server.wait()
            shutil.rmtree(folder, ignore_errors=True)


def watch_job(
    job: subprocess.Popen[bytes], folder: Path, program: Program, silence: float, patience: float
) -> tuple[float | None, str]:
    """Wait for an announcement, or for the end; do to it what is to be done from outside."""
    began, acted = time.monotonic(), 0.0
    while job.poll() is None and time.monotonic() - began < patience:
        time.sleep(0.25)
        hang = next((event for event in events(folder) if event["kind"] == "hang"), None)
        if hang is not None:
            undecided = [event["reasons"] for event in events(folder) if event["kind"] == "undecided"]
            words = cause_of(folder) + "; " + (folder / "said").read_text().strip().splitlines()[-1]
            return float(hang["t"]) - last_step(folder), words + (f" (undecided: {undecided[-1]})" if undecided else "")
        if program.act and last_step(folder) and time.monotonic() - began > 12 and not acted:  # it trains by then
            acted = time.monotonic()
            act(folder, program.act)
        if program.act in {"answer", "stop and continue"} and acted and time.monotonic() - acted > silence:
            acted = float("inf")
            if program.act == "answer" and job.stdin is not None:
                job.stdin.write(b"yes\n")
                job.stdin.flush()
            else:
                signal_ranks(folder, signal.SIGCONT)
    said = (folder / "said").read_text().strip().splitlines()
    if job.poll() is None:
        return None, "still there, nothing said"
    return None, f"ended with {job.returncode}" + (f": {said[-1]}" if job.returncode and said else "")


def cause_of(folder: Path) -> str:
    """What `why` says of the run while it hangs."""
    (run,) = (folder / "runs").glob("2*")
    findings = why(str(run)).findings
    return findings[0].cause if findings else "nothing"


def act(folder: Path, what: str) -> None:
    """Stop one rank, or all of them."""
    if what == "stop rank 1":
        signal_ranks(folder, signal.SIGSTOP, rank=1)
    elif what == "stop and continue":
        signal_ranks(folder, signal.SIGSTOP)


def signal_ranks(folder: Path, number: int, rank: int | None = None) -> None:
    """Send a signal to the ranks of the job."""
    for event in events(folder):
        if event["kind"] == "process" and event["role"] == "rank" and rank in {None, event["rank"]}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(event["pid"], number)


def events(folder: Path) -> list[dict[str, Any]]:
    """What the supervisor wrote down so far."""
    found = []
    for path in (folder / "runs").glob("*/recording/events.jsonl"):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def last_step(folder: Path) -> float:
    """When the last rank made its last step."""
    return max((float(path.read_text() or 0) for path in folder.glob("last-*")), default=0.0)


def end_job(job: subprocess.Popen[bytes]) -> None:
    """End the job and everything below it."""
    import psutil

    with contextlib.suppress(psutil.Error):
        below = psutil.Process(job.pid).children(recursive=True)
        job.terminate()
        for process in below:
            with contextlib.suppress(psutil.Error):
                process.kill()
    job.wait(30)


def main() -> int:
    """Run the programs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--hanging", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="--hang-seconds of the runs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="where the model is; with `cuda` there are programs of its own")
    options = parser.parse_args()
    healthy = {**HEALTHY, **(ON_A_GPU if options.device == "cuda" else {})}
    chosen = {**(healthy if options.healthy else {}), **(HANGING if options.hanging else {})} or {**HANGING, **healthy}
    names = [name for name in options.only.split(",") if name] or list(chosen)
    late = 2.5 * options.seconds + 40

    def row(name: str) -> tuple[str, float | None, str]:
        program = PROGRAMS[name]
        patience = {"early": late, "later": late, "never": 0.7 * options.seconds + 60}[program.expected]
        return (name, *run_program(program, options.seconds, patience, options.device))

    failures = 0
    print(f"{'program':32} {'announced after':>15} {'expected':>9}  ", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, seconds, words in pool.map(row, names):
            expected = PROGRAMS[name].expected
            within = WITHIN * max(1.0, options.seconds / 60)
            early = seconds is not None and seconds < within
            right = early if expected == "early" else not early if expected == "later" else seconds is None
            failures += not right
            shown = f"{seconds:.1f} s" if seconds is not None else "never"
            print(f"{name:32} {shown:>15} {expected:>9}  {'' if right else 'WRONG '}{words[:600]}", flush=True)
    print(f"{len(names) - failures} of {len(names)} as expected")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
