"""`crashcart.numbers`: what is no number is refused, nothing raises, and the lint rule holds the rest of crashcart to it."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import mypy.api
import pytest

from crashcart import numbers
from crashcart.numbers import (
    LARGEST,
    bound_number,
    calculate,
    format_time,
    json_int,
    slurm_seconds,
    to_count,
    to_datetime,
    to_float,
    to_int,
    to_range,
    to_unix_seconds,
    whole_product,
)

NO_NUMBERS: list[Any] = [
    "none", "None", "", " ", "1__0", "1_e5", "_1", "²", "٣٤", "１２", "1,000", "12 GiB", "0x1f", "--5", "1.2.3", "1:30", "9" * 400, "9" * 5000,
    "1" * 3_000_000, "1e400", "-1e400", "inf", "nan", "\x00", "\ud800", b"\xff", b"", True, False, None, [], [1], {}, {"a": 1}, (), object(),
    10**400, -(10**400), 1 << 100_000, math.inf, -math.inf, math.nan, 1j,
]  # fmt: skip
NUMBERS: list[tuple[Any, int]] = [
    ("0", 0), ("007", 7), ("-5", -5), ("+5", 5), (" 12\n", 12), ("1_000", 1000), (b"42", 42), (3, 3), (3.9, 3), (-3.9, -3),
    ("18446744073709551616", 1 << 64), (1e29, int(1e29)),
]  # fmt: skip


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int")
def test_what_is_no_number_is_refused_by_all(value: Any) -> None:
    began = time.monotonic()
    assert (to_int(value), to_int(value, 7), to_count(value, 7)) == (None, 7, 7)
    assert to_float(value) is None or isinstance(value, (str, bytes))
    assert to_datetime(value) is None
    assert format_time(value, "%Y") == "?"
    assert whole_product(value, 1024) is None
    assert (
        to_unix_seconds(value, 1, 1) is to_unix_seconds(2020, value, 1) is to_unix_seconds(2020, 1, 1, 0, 0, value) is None
    )
    bound_number(value)
    assert time.monotonic() - began < 0.5


@pytest.mark.parametrize(("value", "number"), NUMBERS)
def test_what_python_reads_is_read(value: Any, number: int) -> None:
    assert to_int(value) == number
    assert to_count(value) == (number if number >= 0 else None)
    assert to_float(value, 0.0) == pytest.approx(float(value))


def test_floats_are_finite_unless_asked_for() -> None:
    for text in ("1e400", "inf", "-Infinity", "nan"):
        assert to_float(text) is None
    assert to_float("1e400", finite=False) == to_float(10**400, finite=False) == math.inf
    assert to_float(-(10**400), finite=False) == -math.inf
    assert math.isnan(to_float("nan", 0.0, finite=False))
    assert to_float("none", finite=False) is None
    assert to_int("ff", base=16) == 255


def test_a_base_is_held_to() -> None:
    assert (to_int("zz", base=16), to_int("0x1f", base=16), to_int("9" * 400, base=16)) == (None, 31, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("30:15", 1815), ("1:00:00", 3600), ("1-00:00:00", 86400), ("1-99:99:99", 448839), ("2-12", 216000), ("2-12:30", 217800),
        ("99999999-99:99:99", 8640000276039), ("UNLIMITED", None), ("1-", None), ("-1", None), ("1:2:3:4", None), ("²", None), ("1__0", None),
        ("9" * 400, None), (":" * 100_000, None), ("9" * 30 + "-9", None),
    ],
)  # fmt: skip
def test_durations_of_slurm(text: str, seconds: int | None) -> None:
    assert slurm_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "limits"), [("4", (4, 4)), ("1:4", (1, 4)), ("4:1", None), ("1__0:²", None), (":", None), ("1:4:8", None)]
)
def test_ranges_of_nodes(text: str, limits: tuple[int, int] | None) -> None:
    assert to_range(text) == limits


def test_times_outside_the_calendar_are_unknown() -> None:
    assert to_datetime(1.7e9) is not None
    assert to_datetime(253402300800) is None  # the year 10000
    assert (format_time(0, "%H:%M"), format_time(1e18, "%H:%M"), format_time(1e18, "%H:%M", utc=False)) == (
        "00:00",
        "?",
        "?",
    )
    assert to_unix_seconds("2020", "01", "01") == 1577836800
    assert to_unix_seconds(2016, 12, 31, 23, 59, 60) == 1483228800  # a leap second
    for date in ((99999, 1, 1), (2020, 13, 1), (2021, 2, 29), (0, 1, 1), (2020, 1, 1, 25), (2020, 1, 1, 0, 0, 61)):
        assert to_unix_seconds(*date) is None


def test_sizes_are_whole_and_bounded() -> None:
    assert (whole_product("1.5", 1 << 30), whole_product("200", 1 << 30), whole_product(10**17 + 1, 1024)) == (
        3 << 29, 200 << 30, (10**17 + 1) * 1024,
    )  # fmt: skip
    assert whole_product("9" * 30, 1 << 40) is None


def test_results_stay_within_measure() -> None:
    assert [calculate(sign, 7, 2) for sign in ("+", "-", "*", "/", "//", "%")] == [9, 5, 14, 3.5, 3, 1]
    for sign, left, right in (
        ("/", 1, 0), ("//", 1, 0.0), ("%", 1, 0), ("*", 10**29, 10**29), ("*", 1e29, 1e29), ("+", math.inf, 1), ("-", math.nan, 1),
        ("/", 1e29, 1e-300), ("**", 10, 10**9), ("<<", 1, 10**9), ("*", 10**400, 1.5),
    ):  # fmt: skip
        assert calculate(sign, left, right) is None


def test_documents_hold_no_number_that_breaks_arithmetic() -> None:
    told = json.loads(f'{{"a": {"9" * 5000}, "b": -{"9" * 400}, "c": 7, "d": {"9" * 40}}}', parse_int=json_int)
    assert told == {"a": math.inf, "b": -math.inf, "c": 7, "d": pytest.approx(1e40)}
    assert bound_number([10**400, 5, "x", True]) == [math.inf, 5, "x", True]
    assert bound_number(LARGEST - 1) == LARGEST - 1


BAD = """
import math
import time
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any


def bad(text: str, raw: bytes, data: Any, thing: object, some: str | int, number: float, narrowed: int | float) -> None:
    int(text)
    int(text, 16)
    int(raw)
    int(data)
    int(some)
    float(text)
    float(data)
    float(some)
    complex(text)
    Decimal(text)
    Fraction(text)
    int(number)
    round(number)
    math.ceil(number)
    math.floor(number)
    math.trunc(number)
    float(narrowed)
    list(map(int, text.split()))
    list(map(float, [text]))
    datetime.fromtimestamp(number)
    date.fromtimestamp(number)
    time.localtime(number)
    time.gmtime(number)
    [int(word) for word in text.split()]
    sum(int(word) for word in text.split())
    int(getattr(thing, "x"))
"""
GOOD = """
import math
import time
from datetime import datetime, timezone


def good(count: int, number: float, flag: bool, words: list[str]) -> None:
    int(count)
    int(flag)
    int()
    float(count)
    float(number)
    float("inf")
    float("-nan")
    round(number, 2)
    round(count)
    math.isnan(number)
    sum(int(word == "x") for word in words)
    list(map(str, words))
    list(map(len, words))
    time.localtime()
    datetime.now(timezone.utc).timestamp()
"""


def test_the_lint_rule_fires_on_every_bad_line_and_on_no_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Path(__file__).parents[2] / "tools" / "mypy_numbers.py"
    (tmp_path / "crashcart" / "inside").mkdir(parents=True)
    for name, text in (
        ("__init__", ""),
        ("inside/__init__", ""),
        ("readers", BAD),
        ("good", GOOD),
        ("numbers", BAD),
        ("inside/page", BAD),
    ):
        (tmp_path / "crashcart" / f"{name}.py").write_text(text)
    (tmp_path / "other.py").write_text(BAD)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nplugins = {plugin}\ncheck_untyped_defs = True\n")
    monkeypatch.chdir(tmp_path)
    shown, problems, _ = mypy.api.run(
        ["--config-file", "mypy.ini", "--cache-dir", str(tmp_path / "cache"), "crashcart", "other.py"]
    )
    assert not problems
    reported = {line.partition(": error")[0] for line in shown.splitlines() if "use crashcart.numbers" in line}
    first = BAD.splitlines().index("    int(text)") + 1
    wanted = {f"crashcart/readers.py:{number}" for number in range(first, len(BAD.splitlines()) + 1)}
    assert reported == wanted, shown
    assert "good.py" not in shown, shown


def test_every_exempt_module_is_there() -> None:
    """An exemption for a module that was renamed would wait for the next one of its name."""
    import sys

    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
    import mypy_numbers

    source = Path(numbers.__file__).parents[1]
    for name in mypy_numbers.EXEMPT:
        path = source / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name
