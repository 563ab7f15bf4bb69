"""Where an exception came up, in words."""

from __future__ import annotations

import pytest

from crashcart.places import without_folder


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("raised at /job/train.py:3 in step", "raised at train.py:3 in step"),
        ("wrote /job/a.pt and '/job/b.pt'", "wrote a.pt and 'b.pt'"),
        ("read /data/job/a.pt", "read /data/job/a.pt"),
        ("read /job2/a.pt in /job", "read /job2/a.pt in /job"),
    ],
)
def test_paths_are_told_from_the_folder_of_the_job(sentence: str, expected: str) -> None:
    assert without_folder(sentence, "/job/") == expected
