"""Every number of real lines, scripts, configs and run folders in spellings that no program means and every program may print."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import crashcart
from crashcart.engine import examine
from crashcart.errors import CommandError
from crashcart.readers.gather import Given, gather
from crashcart.readers.job.config import read_config_text
from crashcart.report.data import plain
from crashcart.report.terminal import text

if TYPE_CHECKING:
    from pathlib import Path

EXTREME = (
    "none", "None", "1__0", "1_e5", "²", "٣٤", "1.2.3", "", "-1", "0", "nan", "inf", "1e400", "1e-400", "0x1f", "9" * 25, "9" * 45, "9" * 320,
)  # fmt: skip
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
LOGS = {
    "accelerate": """\
{'loss': 1.2345, 'grad_norm': 0.7, 'learning_rate': 1e-05, 'epoch': 0.31}
 31%|███       | 310/1000 [01:02<02:18,  4.99it/s, loss=1.23]
Traceback (most recent call last):
  File "/home/me/train.py", line 412, in main
    loss.backward()
RuntimeError: CUDA error: an illegal memory access was encountered
Traceback (most recent call last):
  File "/opt/conda/lib/python3.10/site-packages/accelerate/commands/launch.py", line 1106, in launch_command
    simple_launcher(args)
subprocess.CalledProcessError: Command '['/opt/conda/bin/python', 'train.py', '--lr=1e-4', '--max_train_steps=1000', '--report_to=none']' returned non-zero exit status 1.
""",
    "torchrun": """\
W1115 07:12:03.118000 4711 torch/distributed/elastic/multiprocessing/api.py:898] Sending process 4712 closing signal SIGTERM
E1115 07:12:04.118000 4711 torch/distributed/elastic/multiprocessing/api.py:870] failed (exitcode: -9) local_rank: 3 (pid: 4715) of binary: /opt/bin/python
[rank1]:[E1115 07:12:03.1] ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1234, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-15_07:12:04
  host      : node1
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 4715)
""",
    "memory": """\
Epoch 3/10, step 1200/5000, loss: 2.31, lr: 0.0003, mem: 71.2G
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.06 GiB is free. Process 4711 has 60.00 GiB memory in use. Including non-PyTorch memory, this process has 18.09 GiB memory in use. Of the allocated memory 17.10 GiB is allocated by PyTorch, and 200.31 MiB is reserved by PyTorch but unallocated.
|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |
| N/A   35C    P0              72W / 400W |  71234MiB / 81920MiB |      0%      Default |
RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes.
""",
    "kernel": """\
[12345.678901] python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
[12345.678902] memory: usage 209715200kB, limit 209715200kB, failcnt 20725
[12345.678903] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[12345.678904] [   2343]  1000  2343  7940883  3485063  3482011     3052         0 28766208        0             0 python
[12345.678905] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_1000/job_77,task_memcg=/slurm/uid_1000/job_77/step_0,task=python,pid=2343,uid=1000
[12345.678906] Memory cgroup out of memory: Killed process 2343 (python) total-vm:31763532kB, anon-rss:13928044kB, file-rss:12208kB, shmem-rss:0kB, UID:1000 pgtables:28092kB oom_score_adj:0
Nov 15 07:12:03 node1 kernel: [12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
2026-11-15T07:12:03,678901+08:00 python[2343]: segfault at 7f3a00000000 ip 00007f3a12345678 sp 00007ffc12345678 error 4 in libc.so.6[7f3a12300000+195000]
4,2211,12345678901,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, Ch 00000008
{"__REALTIME_TIMESTAMP":"1794726723678901","_BOOT_ID":"3a8f","_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 48, pid=9"}
""",
    "slurm": """\
slurmstepd: error: *** JOB 77 ON node1 CANCELLED AT 2026-11-15T07:12:03 DUE TO TIME LIMIT ***
slurmstepd: error: Detected 3 oom_kill events in StepId=77.0. Some of the step tasks have been OOM Killed.
srun: error: node1: task 3: Exited with exit code 137
JobID|State|ExitCode|MaxRSS|ReqMem|Timelimit|Elapsed
77|TIMEOUT|0:15|12345678K|200G|1-00:00:00|1-00:00:12
""",
    "slow": """\
data time: 1.234 (0.832)  batch time: 2.345 (1.932)  iter 300/1000
rank 0 step 12 time 0.31 s/step
rank 1 step 12 time 2.31 s/step
MnRtt/Rnk: 12.3ms/1 | MxRtt/Rnk: 45.6ms/3
clocks_throttle_reasons.active : 0x0000000000000040
    Graphics                          : 210 MHz
    GPU Current Temp                  : 88 C
making 128 batches took 93.1 seconds
torch._dynamo hit config.recompile_limit (8)   [0/8] recompiling function forward
""",
}  # fmt: skip
SCRIPT = """\
#!/bin/bash
#SBATCH --time=1-12:30:00
#SBATCH --mem=200G
#SBATCH --nodes=2
#SBATCH --gres=gpu:a100:8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
export OMP_NUM_THREADS=8
export MASTER_PORT=29500
ulimit -n 4096
STEPS=$((2**10 + 5))
for i in $(seq 1 3); do echo $i; done
torchrun --nproc-per-node 8 --nnodes 1:4 --max-restarts=3 train.py --lr 1e-4 --batch_size 32 --save_steps 500 --max_steps ${STEPS:-1000}
"""
CONFIG = """\
train:
  batch_size: 32
  gradient_accumulation_steps: 4
  lr: 0.0003
  max_steps: 1000
  save_steps: 500
  eval_steps: 250
  num_workers: 8
  seed: 42
  betas: [0.9, 0.95]
"""
PROGRAM = """\
import argparse, yaml
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--save_steps", type=int, default=500)
parser.add_argument("--max_steps", type=int, default=1000)
parser.add_argument("--config", default="config.yaml")
args = parser.parse_args()
config = yaml.safe_load(open(args.config))["train"]
micro_batch = config["batch_size"] // config["gradient_accumulation_steps"] * 12345 * config["batch_size"] * config["max_steps"]
assert config["batch_size"] % (config["num_workers"] * 8) == 0
loader = DataLoader(list(range(1000)), batch_size=config["batch_size"], num_workers=16)
"""
IN_CODE = ("0x" + "f" * 5000, "9" * 400, "1e400", "0", "1_0", "-1")
IN_CONFIGS = (
    *EXTREME, "9" * 4400, "0x" + "f" * 99, ".inf", "-.inf", ".nan", "!!int x", "!!int", "!!float y", "!!float ''", "!!bool maybe", "!!timestamp a",
    "!!binary '#'", "1:99:99", "2020-99-99", "99999-01-01", "[[1]]", "{}", "~",
)  # fmt: skip
IN_SCRIPTS = (
    *EXTREME,
    "$((2**99999))",
    "$((1<<10**9))",
    "9e400G",
    "1-99:99:99",
    "99999999-99:99:99",
    "1__0:²",
    "${X:-²}",
    "99999999999",
)


def spoilt(chance: random.Random, words: str, spellings: tuple[str, ...], share: float) -> str:
    """The text with a share of its numbers in other spellings."""
    return NUMBER.sub(lambda found: chance.choice(spellings) if chance.random() < share else found[0], words)


def explain(folder: Path, log: str, kernel: str = "") -> None:
    (folder / "train.log").write_text(log, encoding="utf-8")
    (folder / "kernel.log").write_text(kernel, encoding="utf-8")
    given = Given((str(folder / "train.log"),), kernel_log=str(folder / "kernel.log") if kernel else None, look_around=False)
    diagnosis = examine(gather(given))
    json.dumps(plain(diagnosis))
    text(diagnosis)


@pytest.mark.parametrize("spelling", EXTREME, ids=lambda spelling: spelling[:12] or "empty")
def test_a_log_whose_numbers_are_all_extreme_is_explained(tmp_path: Path, spelling: str) -> None:
    for log in LOGS.values():
        explain(tmp_path, spoilt(random.Random(1), log, (spelling,), 1.0))
    explain(tmp_path, LOGS["accelerate"], spoilt(random.Random(1), LOGS["kernel"], (spelling,), 1.0))


def test_a_log_with_some_extreme_numbers_is_explained(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(40):
        log = "".join(spoilt(chance, one, EXTREME, chance.choice([0.05, 0.3])) for one in LOGS.values())
        explain(tmp_path, log, spoilt(chance, LOGS["kernel"], EXTREME, 0.2))


def test_the_command_that_accelerate_quotes_holds_no_metric(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOGS["accelerate"])
    case = gather(Given((str(tmp_path / "train.log"),), look_around=False))
    assert not any(name == "report_to" for one in case.log.metrics for name, _ in one.values)
    assert any(("loss", 1.2345) in one.values for one in case.log.metrics)


def test_jobs_with_extreme_numbers_are_checked(folder: Path) -> None:
    chance = random.Random(11)
    for _ in range(30):
        share = chance.choice([0.1, 0.4, 1.0])
        (folder / "train.sh").write_text(spoilt(chance, SCRIPT, IN_SCRIPTS, share), encoding="utf-8")
        (folder / "config.yaml").write_text(spoilt(chance, CONFIG, IN_CONFIGS, share), encoding="utf-8")
        (folder / "train.py").write_text(spoilt(chance, PROGRAM, IN_CODE, share / 4), encoding="utf-8")
        json.dumps(plain(crashcart.check(["train.sh"])))


@pytest.mark.parametrize("spelling", IN_CONFIGS, ids=lambda spelling: spelling[:14] or "empty")
def test_a_config_with_an_odd_number_gives_a_value_or_a_sentence(spelling: str) -> None:
    for name, words in (
        ("a.yaml", f"lr: {spelling}\nlist: [1, {spelling}]\n"),
        ("a.json", f'{{"lr": {spelling}, "list": [1, {spelling}]}}'),
        ("a.toml", f"lr = {spelling}\nlist = [1, {spelling}]\n"),
    ):
        facts = []
        with contextlib.suppress(CommandError):
            facts = read_config_text(words, name)
        for fact in facts:
            f"{fact.value}"
            assert not isinstance(fact.value, int) or abs(fact.value) < 10**30


HOSTILE: list[Any] = [
    None, True, -1, 10**30, 10**400, -(10**400), 1e308, float("nan"), float("inf"), "", "soon", "²", "9" * 400, [], [1], {}, {"a": []},
]  # fmt: skip
RUN = {
    "state": "failed", "started": 1794970224.9, "ended": 1794970227.9, "host": "vm", "user": "me", "command": "python train.py", "job": 13424,
    "code": 1, "signal": None, "machine": {"boot": "ba9f", "open_files": 1024, "pids": "the machine's", "group": "/job"}, "logs": ["output.log"],
    "environment": {"SLURM_JOB_END_TIME": "1794970227"}, "cards": [{"index": 0, "bus": "0000:01:00.0"}], "lost": 0, "left": [], "before": [],
    "node": {"name": "a", "group": "g", "rank": 0, "least": 1, "clock": 0.0},
}  # fmt: skip
EXIT = {"code": 1, "signal": None, "time": 1794970227.8}
FINDINGS = {"findings": [{"cause": "code/bug", "role": "cause"}], "ending": {"state": "crashed"}, "stages": []}
HANG = {"t": 1794970226.0, "kind": "hang", "since": 1794970225.0, "rank": 1, "seconds": 70.0}


def changes(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The data with one value replaced, for every value at any depth and every hostile one."""
    found = []
    for name, value in data.items():
        found += [{**data, name: other} for other in HOSTILE]
        if isinstance(value, dict):
            found += [{**data, name: other} for other in changes(value)]
        if isinstance(value, list) and value:
            found += [{**data, name: [other]} for other in HOSTILE]
    return found


def write_run(folder: Path, **files: Any) -> None:
    told = {"run": RUN, "exit": EXIT, "findings": FINDINGS, **files}
    (folder / "recording").mkdir(parents=True, exist_ok=True)
    for name in ("run", "exit", "findings"):
        (folder / f"{name}.json").write_text(json.dumps(told[name]))
    (folder / "recording" / "events.jsonl").write_text(json.dumps(told.get("event", HANG)) + "\n")


@pytest.mark.parametrize(("name", "data"), [("run", RUN), ("exit", EXIT), ("findings", FINDINGS), ("event", HANG)])
def test_one_bad_run_costs_its_own_row_at_most(
    name: str, data: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from crashcart.cli import main

    monkeypatch.setenv("CRASHCART_RUNS", str(folder / "runs"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    write_run(folder / "runs" / "good", run={**RUN, "started": time.time()})
    for number, change in enumerate(changes(data)):
        write_run(folder / "runs" / "bad", **{name: change})
        assert main(["runs", "--json"]) == 0, change
        rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["runs"]
        assert {row["run"] for row in rows} == {"good", "bad"}, change
        if number % 40 == 0:
            assert main(["runs"]) == 0, change
            assert main(["why", str(folder / "runs" / "bad")]) == 0, change
            capsys.readouterr()
            assert main(["why", "--json"]) == 0, change
            assert json.loads(capsys.readouterr().out)["run"] in {"good", "bad"}


def test_a_run_says_which_of_its_values_are_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_RUNS", str(folder / "runs"))
    write_run(folder / "runs" / "good")
    write_run(folder / "runs" / "bad", exit={**EXIT, "time": "soon"})
    path = folder / "runs" / "bad" / "run.json"
    path.write_text(path.read_text().replace("1794970224.9", "1" + "0" * 5000))
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", "runs"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "Damaged and not used: started in run.json, time in exit.json." in done.stdout
    assert "good" in done.stdout
    told = subprocess.run(
        [sys.executable, "-m", "crashcart", "why", "--long"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "run good of me" in " ".join(told.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["why", "--exit-code", "9" * 5000], 2),
        (["why", "--exit-code", "1__0"], 2),
        (["why", "--pid", "²"], 2),
        (["run", "--grace", "1e400", "--", "true"], 125),
        (["run", "--hang-seconds", "9" * 400, "--", "true"], 125),
    ],
)
def test_a_flag_that_is_no_number_gets_a_sentence(
    arguments: list[str], code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from crashcart.cli import main

    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr().err
    assert ended.value.code == code
    assert "is not a whole number" in said or "is not a number of seconds" in said
    assert max(map(len, said.splitlines())) < 200
    assert not list(folder.iterdir())


@pytest.mark.parametrize("size", ["²", "9" * 5000, "1__0", "-5", "nan"])
def test_an_odd_size_of_the_terminal_costs_nothing(size: str, folder: Path) -> None:
    (folder / "train.log").write_text(LOGS["memory"])
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "crashcart", "why", "train.log"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": size, "LINES": size},
    ) as started:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(ours, 4096):
                shown += piece
        os.close(ours)
        _, said = started.communicate(timeout=60)
    assert (started.returncode, said) == (0, b"")
    assert b"gpu-memory/" in shown
