"""Clocks brought together: an event of another boot, hour, user or job is never blamed, one of ours is found."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crashcart.readers.kernel import place, read_kernel

if TYPE_CHECKING:
    from pathlib import Path

    from crashcart.case import KernelEvent

BOOT = 1794726130.0  # 2026-11-15T07:02:10Z
START, END = BOOT + 3600, BOOT + 8520
BANNER = "[    0.000000] Linux version 5.15.0-91-generic (buildd@lcy02-amd64-045) (gcc (Ubuntu 11.4.0)) #101-Ubuntu SMP"
RTC = f"[    1.000000] rtc_cmos rtc_cmos: setting system clock to 2026-11-15T07:02:11 UTC ({BOOT + 1:.0f})"
AUDIT = f"audit: type=2000 audit({BOOT + 0.5:.3f}:1): state=initialized audit_enabled=0 res=1"


def killed(pid: int, uid: int = 1000) -> str:
    return f"Out of memory: Killed process {pid} (python) total-vm:9kB, anon-rss:8kB, shmem-rss:0kB, UID:{uid}"


def only(text: str, **run: object) -> KernelEvent:
    (event,) = place(read_kernel(text + "\n"), **({"run_start": START, "run_end": END} | run))  # type: ignore[arg-type]
    return event


@pytest.mark.parametrize(
    "anchor",
    [
        RTC,
        f"[    0.500000] {AUDIT}",
        f"[ 4000.000000] audit: type=1400 audit({BOOT + 4000:.3f}:77): apparmor=DENIED",
        f"[  100.000000] mce: [Hardware Error]: PROCESSOR 0:50654 TIME {BOOT + 100:.0f} SOCKET 1 APIC 60",
    ],
)
def test_seconds_since_boot_become_a_time_where_the_log_itself_names_a_date(anchor: str) -> None:
    events = place(read_kernel(f"{anchor}\n[ 8520.000000] {killed(5)}\n"), run_start=START, run_end=END, pids={5})
    assert events[-1].seconds == pytest.approx(END, abs=1)
    assert events[-1].ours is True


def test_without_a_date_the_time_is_not_guessed() -> None:
    event = only(f"[ 8520.000000] {killed(5)}", user=1000)
    assert (event.seconds, event.ours) == (None, None)
    assert "time is unknown" in event.why_ours


def test_a_given_boot_time_dates_the_last_boot_only() -> None:
    text = f"[ 8520.000000] {killed(5)}\n{BANNER}\n[ 8520.000000] {killed(6)}\n"
    earlier, later = place(read_kernel(text), run_start=START, run_end=END, boot_time=BOOT, pids={6})
    assert earlier.seconds is None
    assert later.seconds == END
    assert (earlier.ours, later.ours) == (False, True)
    assert "another boot" in earlier.why_ours


def test_an_event_of_an_earlier_boot_is_not_blamed_even_without_a_date_of_its_own() -> None:
    text = f"[ 8520.000000] {killed(5)}\n{BANNER}\n{RTC}\n[ 8520.000000] {killed(6)}\n"
    earlier, later = place(read_kernel(text), run_start=START, run_end=END, user=1000)
    assert (earlier.ours, later.ours) == (False, True)
    assert "earlier boot" in earlier.why_ours


@pytest.mark.parametrize(
    ("seconds", "ours", "why"),
    [
        (START - 3 * 3600, False, "3 h before the beginning"),
        (START - 119, None, "nothing links it"),
        (END + 590, None, "nothing links it"),
        (END + 1200, False, "20 min after the end"),
    ],
)
def test_an_event_of_another_hour_is_not_blamed(seconds: float, ours: bool | None, why: str) -> None:  # noqa: FBT001
    event = only(f"{seconds:.6f} node1 kernel: {killed(5)}", user=1000)
    assert event.ours is ours
    assert why in event.why_ours


def test_a_reused_process_id_of_last_week_is_not_ours() -> None:
    event = only(f"{START - 7 * 86400:.6f} node1 kernel: {killed(5)}", pids={5})
    assert event.ours is False
    assert "7 d before" in event.why_ours


def test_another_user_is_not_blamed() -> None:
    event = only(f"{END:.6f} node1 kernel: {killed(5, uid=2222)}", user=1000)
    assert event.ours is False
    assert "2222" in event.why_ours


def test_the_owner_is_read_from_the_control_group_where_the_line_names_none() -> None:
    line = "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/,task_memcg=/user.slice/user-2222.slice"
    assert only(f"{END:.6f} node1 kernel: {line}", user=1000).ours is False


def test_a_process_known_not_to_be_ours_is_not_blamed_and_an_unknown_one_is_left_open() -> None:
    line = f"{START + 60:.6f} node1 kernel: {killed(5)}"
    assert only(line, pids={5: False, 6: True}).ours is False
    assert only(line, pids={6}).ours is None


def test_a_process_id_of_ours_with_another_owner_is_left_open() -> None:
    event = only(f"{END:.6f} node1 kernel: {killed(5, uid=2222)}", pids={5}, user=1000)
    assert event.ours is None


def test_the_control_group_of_a_slurm_job_decides() -> None:
    group = "/slurm/uid_1000/job_77/step_0"
    line = f"{END:.6f} n kernel: oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg={group},task=python,pid=9,uid=1000"
    assert only(line, job="77", user=1000).ours is True
    assert only(line, job="78", user=1000).ours is False


def test_a_machine_wide_fault_in_the_time_of_the_run_is_left_open() -> None:
    event = only(f"{END:.6f} node1 kernel: NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.", pids={5})
    assert event.ours is None


def test_an_unknown_time_zone_is_found_through_one_of_the_jobs_processes() -> None:
    text = (
        f"Nov 15 15:24:09 node1 kernel: {killed(9, uid=1000)}\n"
        f"Nov 15 17:24:09 node1 kernel: {killed(5)}\n"  # 09:24:09Z, the end of the run, at +08:00
    )
    other, ours = place(read_kernel(text), run_start=START, run_end=END, pids={5})
    assert ours.seconds == pytest.approx(END - 1)
    assert ours.ours is True
    assert other.seconds == pytest.approx(END - 1 - 7200)
    assert other.ours is False


def test_an_unknown_time_zone_is_not_guessed_without_such_a_process() -> None:
    event = only(f"Nov 15 17:24:09 node1 kernel: {killed(5)}", user=1000)
    assert (event.seconds, event.ours) == (None, None)


def test_a_local_time_two_days_off_is_not_ours_whatever_the_zone() -> None:
    event = only(f"[Fri Nov 13 17:24:09 2026] {killed(5)}", pids={5})
    assert event.ours is False
    assert "whatever the time zone" in event.why_ours


def test_a_given_offset_is_used_and_a_year_is_found() -> None:
    event = only(f"Nov 15 17:24:10 node1 kernel: {killed(5)}", utc_offset=8 * 3600.0, user=1000)
    assert event.seconds == END
    assert event.ours is True


def test_new_year_lies_between_a_log_without_years_and_the_end_of_the_run() -> None:
    midnight = 1798761600.0  # 2027-01-01T00:00:00Z
    text = f"Dec 31 23:59:50 node1 kernel: {killed(5)}\n"
    (event,) = place(read_kernel(text), run_start=midnight - 600, run_end=midnight + 5, utc_offset=0.0, pids={5})
    assert event.seconds == midnight - 10


def test_a_syslog_gives_its_own_zone_away() -> None:
    text = f"Nov 15 12:32:15 node1 kernel: [    0.500000] {AUDIT}\nNov 15 14:54:10 node1 kernel: {killed(5)}\n"
    (event,) = place(read_kernel(text), run_start=START, run_end=END, user=1000)
    assert event.seconds == END  # +05:30
    assert event.ours is True


def test_journal_entries_of_another_boot_id_are_another_boot() -> None:
    entry = '{{"_BOOT_ID":"{0}","_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"{1:.0f}","MESSAGE":"{2}"}}'
    rows = [entry.format("a", 1e6 * END, killed(5)), entry.format("b", 1e6 * END, killed(6))]
    first, second = read_kernel("\n".join(rows))
    assert (first.details["clock"]["boot"], second.details["clock"]["boot"]) == (0, 1)
    assert second.seconds == END


@pytest.mark.parametrize("marks", ["-- Reboot --\n", "-- Boot 3a8f5c --\n", BANNER + "\n", ""])
def test_however_a_reboot_shows_it_counts_once(marks: str) -> None:
    text = f"[ 8520.000000] {killed(5)}\n{marks}[   90.000000] {killed(6)}\n[   95.000000] {killed(7)}\n"
    assert [event.details["clock"]["boot"] for event in read_kernel(text)] == [0, 1, 1]


def test_this_machines_start_is_believed_only_for_a_log_that_names_it_and_is_new_enough(tmp_path: Path) -> None:
    with open("/proc/stat", encoding="ascii") as file:
        started = next(float(line.split()[1]) for line in file if line.startswith("btime "))
    path = tmp_path / "kern.log"
    path.write_text(f"[    5.000000] {os.uname().nodename} kernel: {killed(5)}\n")
    assert read_kernel(path)[0].seconds == started + 5
    os.utime(path, (started - 3600, started - 3600))
    assert read_kernel(path)[0].seconds is None
    path.write_text(f"[    5.000000] another-node kernel: {killed(5)}\n")
    assert read_kernel(path)[0].seconds is None
