"""The cards from outside, on a real one: what our process and another hold, and that we hold nothing ourselves."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import torch

from crashcart.recording.tables import GPU
from crashcart.run.outside.gpu import Cards

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.gpu

HOLDER = """
import sys, torch
held = torch.zeros(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
"""


WORKER = """
import sys, threading, torch
matrix = torch.randn(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
waits = threading.Thread(target=sys.stdin.read)
waits.start()
while waits.is_alive():
    for _ in range(50):
        matrix @ matrix
    torch.cuda.synchronize()
"""


@contextmanager
def holding(mebibytes: int, program: str = HOLDER) -> Iterator[int]:
    command = [sys.executable, "-c", program, str(mebibytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid


def test_ours_and_others() -> None:
    cards = Cards()
    if not cards.cards:
        pytest.skip(cards.why)
    with holding(2048) as ours, holding(1024) as other:
        cards.begin(frozenset((ours,)), fresh=True)
        row = dict(zip(GPU, cards.take(20)[0], strict=True))
        assert 3 << 30 < row["used"] < row["total"]
        assert 0 <= row["busy"] <= 1
        assert 0 < row["temperature"] < 120
        assert 0 < row["power"] <= 1.5 * row["power_limit"]
        assert 0 < row["clock"] <= row["clock_limit"]
        assert row["throttle"] >= 0
        assert row["ecc_uncorrected"] >= 0
        if not math.isnan(row["ours"]):  # as where pids are those of another namespace
            assert 2 << 30 < row["ours"] < 4 << 30
            assert row["others"] > 1 << 30
            assert {ours, other} <= cards.holders[0].keys()
            assert os.getpid() not in cards.holders[0] or torch.cuda.is_initialized()  # type: ignore[no-untyped-call] # by another test of this process
    assert cards.events() == []
    cards.close()


def test_who_of_two_on_a_card_computes() -> None:
    cards = Cards()
    if not cards.cards:
        pytest.skip(cards.why)
    with holding(64) as idle, holding(64, WORKER) as busy:
        time.sleep(7)
        cards.begin(frozenset((idle, busy)), fresh=True)
        cards.take(20)
        if not {idle, busy} <= cards.holders[0].keys():
            pytest.skip("the pids are those of another namespace")
        assert idle in cards.idle[0]
        assert busy not in cards.idle[0]
    cards.close()
