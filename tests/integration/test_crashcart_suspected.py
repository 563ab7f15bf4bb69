"""When a process dies in one of our own hooks, the first line of the answer says so, and how to go on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from recorded import ran, shown

if TYPE_CHECKING:
    from pathlib import Path
pytest.importorskip("torch")

pytestmark = pytest.mark.processes

TRAIN = """
    import os, sys, torch
    ours = {name.rpartition(".")[2]: module for name, module in sys.modules.items() if name.startswith("_crashcart_inside.")}

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 64
        def __getitem__(self, index):
            return torch.ones(4)

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        if epoch == 1 and ours:
            BREAK
        for batch in torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=WORKERS * epoch):
            model(batch).mean().backward()
            optimizer.step()
"""


# A worker that starts while its trainer dies takes whoever adopts it for its trainer, and stays for ever: none where that dies.
@pytest.mark.parametrize(
    ("bug", "workers"),
    [
        ('ours["tracing"].watched = os.abort', 0),  # in a hook
        ('ours["page"].after_fork.append(os.abort)', 2),  # in every forked worker
    ],
)
def test_a_death_in_one_of_our_hooks_is_ours(tmp_path: Path, bug: str, workers: int) -> None:
    diagnosis = ran(tmp_path, TRAIN.replace("BREAK", bug).replace("WORKERS", str(workers)))
    assert diagnosis.findings[0].cause == "outside/crashcart"
    assert diagnosis.findings[0].level == "did"
    first = shown(diagnosis)[:400]
    assert first.lower().startswith("crashcart itself may be the reason: process ")
    assert "crashcart run --no-inject, or CRASHCART=off" in first


def test_a_death_below_one_of_our_wrappers_is_not_ours(tmp_path: Path) -> None:
    """A save that crashes in native code has our wrapper among its frames, but not innermost."""
    diagnosis = ran(
        tmp_path,
        """
        import io, os, torch

        class Crashing(io.BytesIO):
            def write(self, data):
                os.abort()

        torch.save(torch.ones(4), Crashing())
        """,
    )
    assert all(finding.cause != "outside/crashcart" for finding in diagnosis.findings)
