"""A patch says what it costs, and nothing that is untrue of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart

QUEUE = """
import queue, requests, threading, torch
rows = queue.Queue()
def send():
    while True:
        requests.post("http://board.lab", json=rows.get(), timeout=5)
        rows.task_done()
threading.Thread(target=send, daemon=True).start()
def log_epoch():
    rows.join()
for epoch in range(2):
    loss.backward()
    log_epoch()
"""
UPLOAD = """
import torch, wandb
for epoch in range(2):
    loss.backward()
    wandb.log_artifact("a").wait()
"""


@pytest.mark.parametrize(("code", "says", "not_said"), [(QUEUE, "are lost", "finishes"), (UPLOAD, "finishes when", "lost")])
def test_what_not_waiting_for_a_tracker_costs(
    code: str, says: str, not_said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(code)
    (finding,) = [one for one in crashcart.check(["train.py"]).findings if one.cause == "tracker/blocked"]
    why = next(fix.why for fix in finding.fixes if fix.edits)
    assert says in why
    assert not_said not in why
