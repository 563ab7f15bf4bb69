"""What a killed process had printed and not written is found in its ring, and only that is added to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crashcart.inside.layout import PRINTED
from crashcart.run.unwritten import add_unwritten, missing_from, read_ring

if TYPE_CHECKING:
    from pathlib import Path


def ring(path: Path, text: bytes) -> None:
    """As `inside/printed.py` leaves it."""
    content = bytearray(PRINTED)
    for place, byte in enumerate(text):
        content[place % PRINTED] = byte
    path.write_bytes(len(text).to_bytes(8, "little") + content)


@pytest.mark.parametrize("lines", [0, 3, 5000])
def test_the_ring_gives_the_last_bytes_in_order(tmp_path: Path, lines: int) -> None:
    text = b"".join(b"line %d\n" % number for number in range(lines))
    ring(tmp_path / "1-1.printed", text)
    assert read_ring(str(tmp_path / "1-1.printed")) == text[-PRINTED:]


@pytest.mark.parametrize(
    ("log", "text", "missing"),
    [
        (b"", b"a\nb\n", b"a\nb\n"),
        (b"a\nb\n", b"a\nb\n", b""),
        (b"a\nother\nb\n", b"a\nb\nc\n", b"c\n"),
        (b"a\nb\nhal", b"a\nb\nhalf\nc\n", b"half\nc\n"),  # a block ends in the middle of a line
        (b"a\r\nb\r\n", b"a\nb\nc", b"c\n"),  # from a terminal
        (b"a\n", b"\n\n", b""),
    ],
)
def test_only_what_is_not_in_the_log_is_missing(log: bytes, text: bytes, missing: bytes) -> None:
    assert missing_from(log, text) == missing


def test_a_process_that_ran_its_exit_handlers_has_written_everything(tmp_path: Path) -> None:
    ring(tmp_path / "7-1.printed", b"printed into a file of its own\n")
    (tmp_path / "output.log").write_bytes(b"the log\n")
    (tmp_path / "7-1.events").write_text('{"kind": "exit", "step": 3}\n')
    add_unwritten(str(tmp_path), "7-1", str(tmp_path))
    assert (tmp_path / "output.log").read_bytes() == b"the log\n"
    (tmp_path / "7-1.events").unlink()
    add_unwritten(str(tmp_path), "7-1", str(tmp_path))
    assert (tmp_path / "output.log").read_bytes().endswith(b"when it ended]\nprinted into a file of its own\n")
