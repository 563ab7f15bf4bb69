"""What cards say of themselves and what is made of it, with an NVML that answers from a table."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.case import Case
from crashcart.foresight import foresee
from crashcart.model import Evidence, Fact
from crashcart.patch import resolve
from crashcart.readers.job.command import read_command, read_script
from crashcart.readers.machine import gpus, nvml
from crashcart.readers.machine.active import idle
from crashcart.readers.machine.network import look as network
from crashcart.readers.machine.nvml import Cards, cards
from crashcart.readers.machine.reading import Reading, fact_of
from crashcart.record import replace
from crashcart.report.machine import write_machine
from crashcart.verbs.doctor import examined

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
HEALTHY: dict[str, Any] = {
    "index": 0, "name": "NVIDIA H200", "uuid": "GPU-0", "bus": "0000:3B:00.0", "capability": (9, 0), "total": 140 * GIB,
    "used": GIB // 2, "free": 139 * GIB, "busy": 0, "processes": [], "temperature": 31, "slowdown_at": 87, "power": 76.0,
    "power_limit": 700.0, "power_usual": 700.0, "clock": 345, "clock_limit": 1980, "throttle": 0x1, "ecc_mode": 1,
    "ecc_corrected": 0, "ecc_uncorrected": 0, "ecc_corrected_ever": 2, "ecc_uncorrected_ever": 0, "retired": None,
    "retired_pending": None, "rows": {"corrected": 0, "uncorrected": 0, "pending": 0, "failed": 0}, "pcie": (5, 16, 5, 16),
    "persistence": 1, "mig": 0, "mode": 0, "links": (18, 18), "recovery": 0, "fabric": (3, 0),
}  # fmt: skip
TORCH = {"version": "2.8.0+cu128", "cuda": (12, 8), "hip": None, "compat": False}


def told(*each: dict[str, Any], cuda: tuple[int, int] = (12, 8), torch: dict[str, Any] | None = None) -> list[Reading]:
    found = Cards()
    found.driver, found.cuda = "570.1", cuda
    found.each = [{**HEALTHY, "index": index, "uuid": f"GPU-{index}", **card} for index, card in enumerate(each)]
    more = [Reading("torch", "torch", "torch", "", "torch/version.py", {**TORCH, **torch})] if torch is not None else []
    return [*gpus.look(found, {}), *more]


def states(readings: list[Reading]) -> dict[str, str]:
    return {row.name: row.state for row in examined(Case(before=True), readings)[1] if row.state != "ok"}


def test_a_healthy_card_is_all_ok() -> None:
    assert states(told({}, {}, torch={})) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ecc_uncorrected": 2}, {"card_ecc": "bad"}),
        ({"ecc_uncorrected": 2, "ecc_mode": 0}, {}),
        ({"ecc_corrected": 4000}, {}),
        ({"rows": {"corrected": 1, "uncorrected": 1, "pending": 1, "failed": 0}}, {"card_rows": "bad"}),
        ({"rows": {"corrected": 1, "uncorrected": 1, "pending": 0, "failed": 1}}, {"card_rows": "bad"}),
        ({"rows": {"corrected": 1, "uncorrected": 1, "pending": 0, "failed": 0}}, {}),
        ({"rows": None, "retired": 3, "retired_pending": 1}, {"card_pages": "bad"}),
        ({"recovery": 1}, {"card_recovery": "bad"}),
        ({"throttle": 0x40 | 0x8}, {"card_throttle": "warning"}),
        ({"throttle": 0x4}, {}),
        ({"temperature": 86}, {"card_heat": "warning"}),
        ({"power_limit": 300.0}, {"card_power": "warning"}),
        ({"pcie": (1, 16, 5, 16)}, {}),
        ({"pcie": (5, 4, 5, 16)}, {"card_bus": "warning"}),
        ({"links": (17, 18)}, {"card_links": "warning"}),
        ({"links": (0, 18)}, {}),
        ({"links": None, "fabric": None, "recovery": None, "mig": None}, {}),
        ({"mode": 2}, {"card_mode": "bad"}),
        ({"used": 100 * GIB}, {"card_memory": "warning", "card_processes": "warning"}),
        ({"used": 100 * GIB, "mig": 1}, {}),
        ({"temperature": None, "busy": None}, {"card_heat": "unknown", "card_busy": "unknown"}),
    ],
)
def test_one_thing_that_a_card_says(change: dict[str, Any], expected: dict[str, str]) -> None:
    assert states(told({}, change, torch={})) == expected


def test_a_card_that_the_driver_cannot_reach_is_bad() -> None:
    found = Cards()
    found.each = [{"index": 0, "lost": "GPU is lost"}]
    assert states(list(gpus.look(found, {}))) == {"card_lost": "bad"}


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("Driver/library version mismatch", "hardware/driver-mismatch"),
        ("the driver did not respond within 20 s", "hardware/gpu-fault"),
    ],
)
def test_a_driver_that_is_there_and_fails_is_bad(words: str, cause: str) -> None:
    diagnosis, rows = examined(Case(before=True), list(gpus.look(Cards(words, broken=True), {})))
    assert [row.state for row in rows] == ["bad"]
    assert [one.cause for one in diagnosis.findings] == [cause]


@pytest.mark.parametrize(
    ("driver", "torch", "capability", "expected"),
    [
        ((12, 4), {"cuda": (13, 0)}, (9, 0), {"hardware/driver-mismatch": "will"}),
        ((12, 4), {"cuda": (13, 0), "compat": True}, (9, 0), {"hardware/driver-mismatch": "can"}),
        ((12, 2), {"cuda": (12, 8)}, (9, 0), {}),  # within one major version the older driver will do
        ((13, 0), {"cuda": (11, 8)}, (8, 0), {}),
        ((13, 0), {"cuda": None}, (9, 0), {"hardware/driver-mismatch": "note"}),
        ((13, 0), {"cuda": None, "hip": "6.2"}, (9, 0), {}),
        ((13, 0), {"cuda": (13, 0)}, (7, 0), {"hardware/unsupported": "will"}),
        ((13, 0), {"cuda": (12, 4)}, (12, 0), {"hardware/unsupported": "can"}),
        ((13, 0), {"cuda": (12, 8)}, (12, 0), {}),
    ],
)
def test_driver_card_and_build_of_torch(
    driver: tuple[int, int], torch: dict[str, Any], capability: tuple[int, int], expected: dict[str, str]
) -> None:
    case = Case(before=True)
    readings = told({"capability": capability}, cuda=driver, torch=torch)
    assert {one.cause: one.level for one in examined(case, readings)[0].findings} == expected


def job(command: str, readings: list[Reading], *backends: str | None) -> Case:
    case = Case(before=True, facts={fact.name: fact for fact in read_command(command)})
    for reading in readings:
        case.seen.setdefault(f"machine.{reading.name}", []).append(fact_of(reading))
    case.seen["code.group_backend"] = [Fact("code.group_backend", name, Evidence("code", "", "t.py:1")) for name in backends]
    return case


def levels(case: Case) -> dict[str, str]:
    return {one.cause: one.level for one in foresee(case).findings}


def test_more_processes_than_cards() -> None:
    command = "torchrun --nproc_per_node=4 train.py"
    assert levels(job(command, told({}, {}), "nccl")) == {"config/launch-mismatch": "will"}
    assert levels(job(command, told({}, {}))) == {"config/launch-mismatch": "can"}
    assert levels(job(command, told({}, {}), "gloo")) == {}
    assert levels(job(command, told({}, {}, {}, {}), "nccl")) == {}
    assert levels(job(command, told(), "nccl")) == {}  # no card at all: a login node, or a job that needs none
    assert levels(job("accelerate launch --cpu --num_processes=4 train.py", told({}))) == {}
    login = Reading("processors", "scheduler", "scheduler", "", "/usr/bin/sbatch", {"login": True})
    assert levels(job(command, [*told({}, {}), login], "nccl")) == {"config/launch-mismatch": "can"}


def test_more_processes_than_the_shell_shows_cards() -> None:
    shown = told({}, {}, {}, {})
    shown[0].value["visible"] = "0,1"
    assert levels(job("torchrun --nproc_per_node=4 train.py", shown, "nccl")) == {"config/launch-mismatch": "will"}
    shown[0].value["visible"] = "GPU-0,GPU-1,GPU-2,GPU-3"
    assert levels(job("torchrun --nproc_per_node=4 train.py", shown, "nccl")) == {}


def test_a_card_that_somebody_holds_and_one_that_is_free() -> None:
    holder = {"pid": 7, "memory": 90 * GIB, "name": "python", "owner": "ann"}
    readings = told({"used": 90 * GIB, "processes": [holder]}, {})
    (finding,) = foresee(job("python train.py", readings)).findings
    assert (finding.cause, finding.level) == ("gpu-memory/other-process", "can")
    assert "held by python (pid 7) of ann" in finding.signs[0].evidence[1].quote
    assert finding.fixes[0].environment == {"CUDA_VISIBLE_DEVICES": "1"}
    assert levels(job("env CUDA_VISIBLE_DEVICES=1 python train.py", readings)) == {}
    assert levels(job("torchrun --nproc_per_node=1 train.py", list(reversed(readings)))) == {
        "gpu-memory/other-process": "can"
    }


def interfaces(root: Path, command: str, shell: dict[str, str]) -> list[Reading]:
    (root / "sys/class/net/eth0").mkdir(parents=True, exist_ok=True)
    return list(network({fact.name: fact for fact in read_command(command)}, shell, str(root)))


def test_an_interface_that_is_not_here(tmp_path: Path) -> None:
    command = "env NCCL_SOCKET_IFNAME=bond0 torchrun --nproc_per_node=2 train.py"
    found = interfaces(tmp_path, command, {})
    cause = "distributed/network"
    assert levels(job(command, [*told({}, {}), *found], "nccl")) == {cause: "will"}
    assert levels(job(command, [*told({}, {}), *found])) == {cause: "can"}
    assert levels(job(command, [*told({}, {}), *found], "gloo")) == {}
    assert levels(job(command, found)) == {}  # NCCL is for cards, and none can be seen
    alone = "env NCCL_SOCKET_IFNAME=bond0 torchrun --nproc_per_node=1 train.py"
    assert levels(job(alone, [*told({}), *interfaces(tmp_path, alone, {})])) == {}
    devices = "env NCCL_IB_HCA=mlx5_0 torchrun --nproc_per_node=2 train.py"
    assert levels(job(devices, [*told({}, {}), *interfaces(tmp_path, devices, {})])) == {cause: "note"}


def test_the_loop_back_takes_the_place_of_an_interface_that_is_not_here(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("export GLOO_SOCKET_IFNAME=bond0\ntorchrun --nproc_per_node=2 train.py\n")
    facts = {fact.name: fact for fact in read_script(str(script))}
    case = Case(before=True, facts=facts)
    for reading in network(facts, {}, str(tmp_path)):
        case.seen.setdefault(f"machine.{reading.name}", []).append(fact_of(reading))
    (finding,) = foresee(case, resolve=lambda fix: resolve(fix, facts)).findings
    assert "+export GLOO_SOCKET_IFNAME=lo" in finding.fixes[0].diff


@pytest.mark.parametrize(
    ("card", "left_alone"),
    [
        ({}, False),
        ({"processes": [{"pid": 1}]}, True),
        ({"processes": None}, True),
        ({"used": 20 * GIB}, True),
        ({"mig": 1}, True),
        ({"lost": "gone"}, True),
    ],
)
def test_only_idle_cards_are_tested(card: dict[str, Any], left_alone: bool) -> None:  # noqa: FBT001 - a column
    assert bool(idle({**HEALTHY, **card})) is left_alone


class Refuses(Exception):  # noqa: N818 - as NVML names its own
    """What a card says that cannot answer."""


def test_a_card_that_answers_little_is_told_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Refuses

    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"570.1",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: refuse() if index else "handle",
        "nvmlDeviceGetName": lambda _: "GeForce",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=8 * GIB, used=GIB, free=7 * GIB),
        "NVML_VOLATILE_ECC": 0, "NVML_AGGREGATE_ECC": 1, "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1, "NVML_TEMPERATURE_GPU": 0, "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": 1,
        "NVML_CLOCK_SM": 1, "NVML_NVLINK_MAX_LINKS": 2,
    }  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(**answers))
    monkeypatch.setattr(nvml, "_TRACES", ("/",))
    found = cards()
    assert (found.driver, found.cuda, found.why) == ("570.1", (12, 8), "")
    assert found.each[0]["name"] == "GeForce"
    assert found.each[1]["lost"] == "Refuses"
    rows = examined(Case(before=True), list(gpus.look(found, {})))[1]
    assert {row.state for row in rows if row.name in ("card_heat", "card_busy", "card_power")} == {"unknown"}


def test_the_verdict_says_what_is_wrong_once_and_cards_that_are_well_are_short(capsys: pytest.CaptureFixture[str]) -> None:
    holder = {"pid": 7, "memory": 90 * GIB, "name": "python", "owner": "ann"}
    readings = told({"used": 90 * GIB, "processes": [holder]}, {}, {"ecc_uncorrected": 2}, torch={})
    write_machine(examined(Case(before=True), readings)[1])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("This machine is not fit for training: GPU 2 had 2 uncorrected memory errors")
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert text.count("a job that needs them will fail") == 1
    assert text.count("NVIDIA H200") == 3
    assert text.count("PCIe") == 2


def test_the_series_of_a_driver_stands_for_the_cuda_that_it_does_not_tell() -> None:
    readings = told({}, torch={"cuda": (13, 0)})
    readings[0].value.update(cuda=None, driver="535.104.05")
    assert {one.cause: one.level for one in examined(Case(before=True), readings)[0].findings} == {
        "hardware/driver-mismatch": "will"
    }
    readings[0].value.update(driver="580.65.06")
    assert examined(Case(before=True), readings)[0].findings == ()


def test_the_interpreter_of_a_script_is_only_that_of_our_shell() -> None:
    case = job("python train.py", told({}, cuda=(12, 4), torch={"cuda": (13, 0)}))
    assert levels(case) == {"hardware/driver-mismatch": "will"}
    case.facts["command.text"] = replace(case.facts["command.text"], evidence=Evidence("command", "", "train.sh:1"))
    assert levels(case) == {"hardware/driver-mismatch": "can"}
