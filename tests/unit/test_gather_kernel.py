"""A kernel log is known by what it holds, wherever it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import crashcart

if TYPE_CHECKING:
    from pathlib import Path

TRAINING = """step 100 loss 0.51
step 200 loss 0.42
Traceback (most recent call last):
  File "train.py", line 60, in <module>
    main()
  File "train.py", line 41, in main
    value = settings["depth"]
KeyError: 'depth'
"""
KERNEL = """[    0.000000] Linux version 5.15.0-91-generic (gcc 11.4.0) #101-Ubuntu SMP
[ 4321.100000] eth0: Link is Up - 10Gbps/Full
[ 9876.543210] Out of memory: Killed process 999 (jupyter-lab) total-vm:9000000kB, anon-rss:8000000kB, file-rss:0kB
[ 9876.643210] oom_reaper: reaped process 999 (jupyter-lab), now anon-rss:0kB
"""


def test_a_kernel_log_in_the_folder_is_no_training_log(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TRAINING)
    (tmp_path / "messages.log").write_text(KERNEL)
    diagnosis = crashcart.why([str(tmp_path)])
    assert "host-memory/oom-kill" not in [finding.cause for finding in diagnosis.findings if finding.role == "cause"]
    assert diagnosis.findings[0].cause in {"code/bug", "config/missing-or-wrong"}
    assert not any(item.where.startswith("messages.log") for item in diagnosis.findings[0].signs[0].evidence)


def test_a_kernel_log_alone_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(KERNEL)
    assert crashcart.why([str(tmp_path / "dmesg.txt")]).findings
