"""What is read of a machine, on small folders that look like the /proc and /sys of one kind of machine each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.case import Case
from crashcart.errors import DEBUG
from crashcart.fitness import graded
from crashcart.model import Evidence, Fact
from crashcart.readers import plan
from crashcart.readers.job.command import read_command, read_script
from crashcart.readers.machine import machine_facts, runs_here
from crashcart.readers.machine.disks import file_system
from crashcart.readers.machine.groups import folders_of, tightest
from crashcart.readers.machine.interpreter import interpreter_of, site_folders
from crashcart.readers.machine.kernel_log import xids
from crashcart.readers.machine.limits import look as limits
from crashcart.readers.machine.memory import look as memory
from crashcart.readers.machine.network import look as network
from crashcart.readers.machine.reading import Reading, amount, fact_of, within
from crashcart.readers.machine.torch_build import look as torch_build

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MEMINFO = "MemTotal:       131072000 kB\nMemFree: 1 kB\nMemAvailable:   65536000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
V2 = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
LISTENING = "  sl  local_address rem_address   st\n   0: 0100007F:733C 00000000:0000 0A 0:0 0 0 0\n   1: 0100007F:733D 0100007F:1 01 0:0\n"


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def named(readings: Iterable[Reading], name: str) -> Reading:
    return next(one for one in readings if one.name == name)


def state(reading: Reading) -> str:
    return graded(fact_of(reading), ())[0]


def test_the_tightest_limit_above_us_counts(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/slurm/job_1/step_0\n",
            "proc/self/mountinfo": V2,
            "sys/fs/cgroup/slurm/job_1/step_0/memory.max": "max\n",
            "sys/fs/cgroup/slurm/job_1/step_0/memory.events": "oom 1\noom_kill 3\n",
            "sys/fs/cgroup/slurm/job_1/memory.max": f"{8 << 30}\n",
            "sys/fs/cgroup/slurm/job_1/memory.current": f"{7900 << 20}\n",
            "proc/pressure/memory": "some avg10=25.00 avg60=0.00 avg300=0.00 total=1\n",
            "proc/sys/vm/overcommit_memory": "2\n",
        },
    )
    found = list(memory(root))
    limit = named(found, "memory_limit")
    assert limit.says == "8 GiB, 7.71 GiB of it in use"
    assert limit.where.endswith("slurm/job_1/memory.max")
    assert [state(named(found, name)) for name in ("memory_limit", "group_kills", "overcommit", "pressure", "memory")] == [
        "warning", "warning", "warning", "warning", "ok",
    ]  # fmt: skip
    assert not named(found, "shm").known  # this root has no /dev/shm: unknown, not fine


def test_groups_of_version_one(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n",
            "proc/self/mountinfo": "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 30}\n",
        },
    )
    assert tightest(folders_of("memory", root), "memory.max", "memory.limit_in_bytes")[0] == 1 << 30


def test_a_machine_that_tells_nothing_is_unknown(tmp_path: Path) -> None:
    assert [one.known for one in memory(str(tmp_path)) if one.name in ("memory", "memory_limit", "swap")] == [False] * 3


def test_a_quota_of_processors_smaller_than_their_number(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2, "sys/fs/cgroup/cpu.max": "100000 400000\n"},
    )
    found = named(limits({}, root), "processors")
    assert found.value["quota"] == 0.25
    assert state(found) == "warning"
    assert state(named(limits({"OMP_NUM_THREADS": "4096"}, root), "threads")) == "warning"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("shm", {"total": 64 << 20, "free": 64 << 20}, "warning"),
        ("shm", {"total": 16 << 30, "free": 15 << 30}, "ok"),
        ("open_files", {"soft": 1024, "hard": 1 << 20}, "warning"),
        ("open_files", {"soft": None, "hard": None}, "ok"),
        ("locked_memory", {"soft": 8 << 20, "hard": 8 << 20, "infiniband": True}, "warning"),
        ("locked_memory", {"soft": 8 << 20, "hard": 8 << 20, "infiniband": False}, "ok"),
        ("tasks", {"limit": 1100, "used": 400}, "warning"),
        ("disk", {"free": 1 << 20, "inodes": 10, "total": 1}, "bad"),
        ("disk", {"free": 1 << 40, "inodes": 0}, "bad"),
        ("disk", {"free": 1 << 40, "inodes": None}, "ok"),
        ("disk", {"free": 2 << 30, "inodes": None}, "warning"),
        ("load", {"load": 64.0, "present": 8}, "warning"),
        ("meeting_test", {"failed": "no answer in 90 s"}, "bad"),
        ("never heard of", {}, "ok"),
    ],
)
def test_rules_of_thumb(name: str, value: dict[str, object], expected: str) -> None:
    assert graded(Fact(f"machine.{name}", value, Evidence("machine", "", "")), ())[0] == expected


def test_the_file_system_of_a_path_is_that_of_the_nearest_mount() -> None:
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /data rw - nfs4 filer:/data rw\n3 1 0:41 / /data2 rw - lustre x rw\n"
    )
    assert file_system("/data/runs", mounts) == ("nfs4", "/data")
    assert file_system("/database", mounts) == ("ext4", "/")
    assert file_system("/data", "") == ("", "")


@pytest.mark.parametrize(
    ("variable", "text", "chosen"),
    [
        ("NCCL_SOCKET_IFNAME", "bond0", []),
        ("NCCL_SOCKET_IFNAME", "eth", ["eth0", "eth1"]),
        ("NCCL_SOCKET_IFNAME", "=eth", []),
        ("NCCL_SOCKET_IFNAME", "=eth1,ib0", ["eth1"]),
        ("NCCL_SOCKET_IFNAME", "^lo,docker", ["eth0", "eth1"]),
        ("GLOO_SOCKET_IFNAME", "eth", []),
        ("GLOO_SOCKET_IFNAME", "eth0,eth1", ["eth0", "eth1"]),
        ("NCCL_IB_HCA", "mlx5_0:1,mlx5_9", ["mlx5_0"]),
        ("NCCL_IB_HCA", "mlx4", []),
    ],
)
def test_which_interfaces_a_variable_stands_for(variable: str, text: str, chosen: list[str], tmp_path: Path) -> None:
    for name in ("net/eth0", "net/eth1", "net/lo", "infiniband/mlx5_0"):
        (tmp_path / "sys/class" / name).mkdir(parents=True)
    found = named(network({}, {variable: text}, str(tmp_path)), "interface")
    assert found.value["chosen"] == chosen


def test_a_port_that_somebody_listens_on(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/net/tcp": LISTENING})
    facts = {fact.name: fact for fact in read_command("torchrun --nproc_per_node=2 --master_port=29500 train.py")}
    found = named(network(facts, {}, root), "port")
    assert (found.value["taken"], found.value["free"]) == (True, 29501)
    assert not named(network({}, {"MASTER_PORT": "29501"}, root), "port").value["taken"]  # connected is not listening
    assert not [one for one in network({}, {"MASTER_PORT": "29500", "MASTER_ADDR": "node7"}, root) if one.name == "port"]


@pytest.mark.parametrize(
    ("command", "here"),
    [
        ("torchrun --nproc_per_node=2 train.py", True),
        ("nohup python train.py", True),
        ("srun torchrun --nproc_per_node=2 train.py", False),
        ("torchrun --nnodes=2 --nproc_per_node=2 train.py", False),
        ("docker run --gpus all image python train.py", False),
        ("ssh node7 python train.py", False),
        ("deepspeed --hostfile=hostfile.txt main.py --deepspeed=ds.json", False),
        ("accelerate launch --num_machines 2 --num_processes 16 main.py", False),
        ("accelerate launch --num_processes 8 main.py", True),
    ],
)
def test_only_what_runs_here_is_joined_with_this_machine(command: str, here: bool) -> None:  # noqa: FBT001 - a column
    case = Case(before=True, facts={fact.name: fact for fact in read_command(command)})
    assert runs_here(case) is here


def test_a_script_for_a_scheduler_does_not_run_here(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --account=me\npython train.py\n")
    assert not runs_here(Case(before=True, facts={fact.name: fact for fact in read_script(str(script))}))
    assert not runs_here(Case(before=True))  # nothing is known of its launch


def environment(root: Path, version: str) -> Path:
    tree(
        root,
        {
            "bin/python": "\x7fELF",
            "bin/torchrun": f"#!{root}/bin/python\nimport sys\n",
            "pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
            "lib/python3.11/site-packages/torch/version.py": version,
        },
    )
    for name in ("python", "torchrun"):
        (root / "bin" / name).chmod(0o755)
    return root


VERSION = "from typing import Optional\n__version__ = '2.8.0+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"


@pytest.mark.parametrize("program", ["python", "torchrun --nproc_per_node=2"])
def test_the_torch_of_the_jobs_own_interpreter(program: str, tmp_path: Path) -> None:
    root = environment(tmp_path, VERSION)
    facts = {fact.name: fact for fact in read_command(f"{root}/bin/{program} train.py")}
    found = named(torch_build(facts), "torch")
    assert found.value["cuda"] == (12, 8)
    assert found.says == "2.8.0+cu128, built for CUDA 12.8"


def test_a_cpu_build_and_packages_elsewhere(tmp_path: Path) -> None:
    base = environment(tmp_path / "base", "__version__ = '2.13.0+cpu'\ncuda = None\nhip = None\n")
    thin = environment(tmp_path / "thin", "")
    (thin / "lib/python3.11/site-packages/base.pth").write_text(f"import os\n{base}/lib/python3.11/site-packages\n")
    assert f"{base}/lib/python3.11/site-packages" in list(site_folders(str(thin / "bin/python")))
    facts = {fact.name: fact for fact in read_command(f"{thin}/bin/python train.py")}
    assert named(torch_build(facts), "torch").says == "2.13.0+cpu, built for the CPU alone"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("conda run -n vla python train.py", "conda chooses it"),
        ("uv run python train.py", "uv chooses it"),
        ("/no/such/python train.py", "not on PATH"),
    ],
)
def test_an_interpreter_that_cannot_be_told_is_unknown(command: str, why: str) -> None:
    found, reason = interpreter_of({fact.name: fact for fact in read_command(command)})
    assert (found, why in reason) == (None, True)


def test_a_script_that_activates_an_environment_is_unknown(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("source ~/miniconda3/bin/activate vla\npython train.py\n")
    found, why = interpreter_of({fact.name: fact for fact in read_script(str(script))})
    assert found is None
    assert "activates" in why


def test_xids_are_told_with_meaning_fault_and_action() -> None:
    from crashcart.readers.kernel import place, read_kernel

    log = (
        "2026-11-15T10:00:00,000000+00:00 NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        "2026-11-15T10:00:01,000000+00:00 NVRM: Xid (PCI:0000:5e:00): 31, pid=1, name=python, Ch 8, MMU Fault\n"
    )
    found = {one.label: one for one in xids(place(read_kernel(log.encode())))}
    assert found["Xid 79"].value["fault"] == "hardware"
    assert found["Xid 31"].value["fault"] == "application"
    assert "whose fault: hardware" in found["Xid 79"].says


def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    import threading

    never = threading.Event()
    assert within(0.05, lambda: never.wait(5), late=True) is True
    never.set()


def test_amounts_are_for_people() -> None:
    assert [amount(size) for size in (0, 512, 64 << 20, 141 << 30, 3 << 40)] == [
        "0 bytes",
        "512 bytes",
        "64 MiB",
        "141 GiB",
        "3 TiB",
    ]


def test_a_job_that_was_named_is_joined_with_this_machine_and_a_folder_of_jobs_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[str] = []
    monkeypatch.setattr(plan, "machine_facts", lambda case: joined.append(str(case.facts["command.text"].value)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("loss.backward()\nif __name__ == '__main__':\n    train()\n")
    (tmp_path / "train.sh").write_text("python train.py\n")
    plan.plans(plan.Asked(paths=["."]))
    assert joined == []
    plan.plans(plan.Asked(paths=["train.sh"]))
    plan.plans(plan.Asked(command=["python", "train.py", "--lr", "1"]))
    assert joined == ["python train.py", "python train.py --lr 1"]


def test_what_a_machine_of_another_kind_cannot_tell_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEBUG)
    monkeypatch.setattr("crashcart.readers.machine.memory.look", lambda: 1 / 0)
    case = Case(before=True, facts={fact.name: fact for fact in read_command("python train.py")})
    machine_facts(case)
    assert case.not_looked[0].what == "this machine"
