"""Kernel logs: every format, every kind of event, one event for each thing that happened, and bounds."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from crashcart.readers import kernel
from crashcart.readers.kernel import read_kernel

XID = "NVRM: Xid (PCI:0000:01:00): 109, pid=8639, name=python, Ch 00000028, errorString CTX SWITCH TIMEOUT, Info 0x2c014"
NOON = 1794744000.0  # 2026-11-15T12:00:00Z
JOURNAL = json.dumps({"__REALTIME_TIMESTAMP": "1794744000000000", "_TRANSPORT": "kernel", "_BOOT_ID": "a", "MESSAGE": XID})

DATA = Path(__file__).parent / "data"
MODERN_OOM = (DATA / "oom-5.15.txt").read_text()
RHEL7_OOM = (DATA / "oom-rhel7.txt").read_text()


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (f"[12345.678901] {XID}", None),
        (f"[12345.678901][ T1042] {XID}", None),
        (f"<4>[12345.678901] {XID}", None),
        (f"kern  :err   : [12345.678901] {XID}", None),
        (f"[Sun Nov 15 12:00:00 2026] {XID}", None),
        (f"[日 11月 15 12:00:00 2026] {XID}", None),
        (f"2026-11-15T20:00:00,000000+08:00 {XID}", NOON),
        (f"Nov 15 12:00:00 node1 kernel: [12345.678901] {XID}", None),
        (f"Nov 15 12:00:00 node1 kernel: {XID}", None),
        (f"2026-11-15T20:00:00+0800 node1 kernel: {XID}", NOON),
        (f"2026-11-15T12:00:00.000000+00:00 node1 kernel: [12345.678901] {XID}", NOON),
        (f"Sun 2026-11-15 12:00:00 UTC node1 kernel: {XID}", NOON),
        (f"Sun 2026-11-15 20:00:00 CST node1 kernel: {XID}", None),
        (f"1794744000.000000 node1 kernel: {XID}", NOON),
        (f"4,2211,12345678901,-;{XID}", None),
        (f"[12345.678901] node1 kernel: {XID}", None),
        (JOURNAL, NOON),
        (f"kernel: {XID}", None),
        (XID, None),
    ],
)
def test_the_same_event_is_read_from_every_kind_of_log(line: str, seconds: float | None) -> None:
    (event,) = read_kernel(line + "\n")
    assert event.kind == "xid"
    assert event.evidence.quote == XID
    wanted = {"code": 109, "pid": 8639, "process": "python", "pci": "0000:01:00", "fault": "either"}
    assert wanted.items() <= event.details.items()
    assert event.seconds == (pytest.approx(seconds) if seconds else None)


@pytest.mark.parametrize("row", (DATA / "kernel-lines.tsv").read_text().splitlines())
def test_every_kind_is_told_with_what_it_names(row: str) -> None:
    kind, details, line = row.split("\t")
    (event,) = read_kernel(f"[  100.000000] {line}\n")
    assert event.kind == kind
    assert json.loads(details).items() <= event.details.items()


@pytest.mark.parametrize(
    "line",
    [
        "[ 1.0] blk_update_request: I/O error, dev fd0, sector 0",
        "[ 1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03",
        "[ 1.0] nfs: server filer3 OK",
        f"Nov 15 12:00:00 node1 python[77]: I saw {XID} in the log",
        "Nov 15 12:00:00 node1 stress[5]: Killed process 1 (python)",
        f"12,7,5000000,-;{XID}",
    ],
)
def test_harmless_lines_and_what_other_programs_write_are_no_events(line: str) -> None:
    assert read_kernel(line + "\n") == ()


def test_a_report_of_many_lines_is_one_event_with_all_its_numbers() -> None:
    (event,) = read_kernel(MODERN_OOM)
    wanted = {
        "pid": 2343,
        "process": "python",
        "uid": 1000,
        "constraint": "memcg",
        "memcg": "/slurm/uid_1000/job_77/step_0",
        "limit_memcg": "/slurm/uid_1000/job_77",
        "limit_bytes": 209715200 * 1024,
        "rss_bytes": (13928044 + 12208 + 1024) * 1024,
        "invoker": "pt_data_worker",
        "tasks": 3,
    }
    assert wanted.items() <= event.details.items()
    assert event.details["largest"][0] == ("pt_data_worker", 2, 4000000 * 4096)
    assert event.evidence.quote.startswith("Memory cgroup out of memory: Killed process 2343")
    assert event.evidence.where.endswith(":14")


def test_the_child_that_was_sacrificed_is_the_victim() -> None:
    (event,) = read_kernel(RHEL7_OOM)
    assert (event.details["pid"], event.details["constraint"]) == (18733, "memcg")
    assert event.details["memcg"] == "/docker/4f1e"


def test_two_kills_are_two_events_and_a_group_kill_names_every_victim() -> None:
    second = MODERN_OOM.replace("2343", "9999").replace("[ 852", "[ 952")
    assert [event.details["pid"] for event in read_kernel(MODERN_OOM + second)] == [2343, 9999]
    more = "[ 8523.5] Memory cgroup out of memory: Killed process 2401 (pt_data_worker) total-vm:1kB, anon-rss:2kB\n"
    first, other = read_kernel(MODERN_OOM + more)
    assert (first.details["pid"], other.details["pid"]) == (2343, 2401)
    assert other.details["memcg"] == first.details["memcg"]


def test_a_report_cut_off_before_the_kill_names_no_victim() -> None:
    (event,) = read_kernel(MODERN_OOM.splitlines()[0] + "\n")
    assert event.details["victim"] == "not in the log"
    assert "pid" not in event.details


def test_the_global_killer_is_told_from_a_limit() -> None:
    line = "[1.5] Out of memory: Killed process 4410 (python3) total-vm:3512020kB, anon-rss:2981440kB, file-rss:2560kB, shmem-rss:0kB, UID:1000 pgtables:6044kB oom_score_adj:0\n"
    (event,) = read_kernel(line)
    assert (event.details["constraint"], event.details["uid"]) == ("global", 1000)


def test_a_lost_gpu_told_twice_is_one_event_but_two_lost_gpus_are_two() -> None:
    lines = [
        "[9.0] NVRM: Xid (PCI:0000:06:00): 79, pid=1122, GPU has fallen off the bus.",
        "[9.1] NVRM: GPU 0000:06:00.0: GPU has fallen off the bus.",
        "[9.2] NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
    ]
    assert [event.details["pci"] for event in read_kernel("\n".join(lines))] == ["0000:06:00", "0000:91:00.0"]


def test_killers_in_user_space_are_found_in_the_journal() -> None:
    text = (
        "Nov 15 12:00:00 n systemd-oomd[612]: Killed /user.slice/user-1000.slice due to memory used (6) / total (7)\n"
        'Nov 15 12:00:01 n earlyoom[9]: sending SIGTERM to process 4321 uid 1000 "python": badness 900, VmRSS 9 MiB\n'
    )
    daemon, early = read_kernel(text)
    assert daemon.details["constraint"] == "systemd-oomd"
    assert (early.details["pid"], early.details["uid"]) == (4321, 1000)


def test_line_numbers_count_line_ends_only(tmp_path: Path) -> None:
    path = tmp_path / "dmesg.txt"
    path.write_bytes(b"[1.0] a\r\x0b\x0cb\n" * 70_000 + f"[2.0] {XID}\r\n".encode())
    (event,) = read_kernel(path)
    assert event.evidence.where == f"{path}:70001"


def test_binary_and_half_lines_give_no_error_and_hide_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    noise = bytes(range(256)).replace(b"\n", b"") * 8000
    cut = [line[:length].encode() for line in MODERN_OOM.splitlines() for length in (7, 30, 61)]
    path.write_bytes(noise + b"\n" + f"[5.0] {XID}\n".encode() + b"\n".join(cut) + b'\n{"MESSAGE": [[[ Xid\n' + noise)
    assert XID in [event.evidence.quote for event in read_kernel(path)]


def test_a_storm_of_events_is_bounded_and_says_what_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_SECONDS", 60.0)  # tracing memory takes several times as long as the reading
    path = tmp_path / "kern.log.1.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for start in range(0, 50_000, 1000):
            file.write(b"".join(b"[%d.0] " % number + XID.encode() + b"\n" for number in range(start, start + 1000)))
    tracemalloc.start()
    events = read_kernel(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(events) == 2000
    assert events[0].details["clock"]["since_boot"] == 0
    assert events[-1].details["clock"]["since_boot"] == 49_999
    assert events[1000].details["left_out_before"] == 48_000
    assert peak < 40 << 20


def test_fifty_megabytes_are_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    dull = b"".join(b"[%8d.000000] usb 1-%d: new high-speed USB device using xhci_hcd\n" % (n, n % 9) for n in range(16_000))
    with path.open("wb") as file:
        for _ in range(50):
            file.write(dull)
        file.write(f"[99999.0] {XID}\n".encode())
    tracemalloc.start()
    (event,) = read_kernel(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 45 << 20
    assert event.evidence.where.endswith(":800001")
    assert peak < 12 << 20


def test_one_endless_line_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(b"x" * (20 << 20) + b"\n" + f"[5.0] {XID}\n".encode())
    tracemalloc.start()
    assert len(read_kernel(path)) == 1
    assert tracemalloc.get_traced_memory()[1] < 12 << 20
    tracemalloc.stop()


def test_a_packed_log_that_was_cut_off_tells_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "kern.log.2.gz"
    packed = gzip.compress((f"[5.0] {XID}\n" + "[6.0] usb 1-1: new device\n" * 5000).encode())
    path.write_bytes(packed[: len(packed) - 9])
    assert len(read_kernel(path)) == 1


def test_a_file_that_is_not_there_is_an_error_not_silence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"kern\.log"):
        read_kernel(tmp_path / "kern.log")
    with pytest.raises(OSError, match="is a folder, not a file"):
        read_kernel(tmp_path)
