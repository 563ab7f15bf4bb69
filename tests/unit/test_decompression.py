"""Compressed logs are unpacked piece by piece, within a bounded memory, whatever their headers say."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from crashcart import decompression
from crashcart.decompression import PIECE_BYTES, DamagedDataError, decompressor_for, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

CHANCE = random.Random(5)
TEXT = b"".join(b"step %d loss %r\n" % (step, CHANCE.random()) for step in range(60_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "xz -9": lambda data: lzma.compress(data, preset=9),
    "zst": zstandard.compress,
    "zst -19": lambda data: zstandard.compress(data, 19),
}


def unpack(data: bytes) -> tuple[bytes, str]:
    """What a file holds as far as it can be read, and what is wrong with it."""
    fresh = decompressor_for(data)
    assert fresh is not None
    found = bytearray()
    try:
        for piece in unpacked(io.BytesIO(data), fresh):
            assert len(piece) <= 5 * PIECE_BYTES  # the bound of zstd is a few blocks more
            found += piece
    except DamagedDataError as problem:
        return bytes(found), str(problem)
    return bytes(found), ""


@pytest.mark.parametrize("kind", PACKERS)
def test_what_was_packed_comes_out_again(kind: str) -> None:
    pack = PACKERS[kind]
    assert unpack(pack(TEXT)) == (TEXT, "")
    assert unpack(pack(TEXT[:500]) + pack(TEXT[500:])) == (TEXT, "")  # as `cat a.gz b.gz` makes it
    assert unpack(pack(b"")) == (b"", "")


@pytest.mark.parametrize("kind", PACKERS)
def test_of_a_file_that_is_cut_off_what_is_whole_is_read(kind: str) -> None:
    data = PACKERS[kind](TEXT)
    found, problem = unpack(data[:-5])
    assert problem == "the compressed file ends early"
    assert TEXT.startswith(found)
    assert len(found) > len(TEXT) // 2


def _bomb(packer: Any, megabytes: int) -> bytes:
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(megabytes)) + bytes(packer.flush())


@pytest.mark.parametrize(
    "data",
    [_bomb(bz2.BZ2Compressor(), 400), _bomb(lzma.LZMACompressor(preset=0), 300), _bomb(zstandard.ZstdCompressor().compressobj(), 300)],
    ids=["bz2", "xz", "zst"],
)  # fmt: skip
def test_what_grows_more_than_any_log_is_cut(data: bytes) -> None:
    found, problem = unpack(data)
    assert problem == "it unpacks to more than 2000 times its size, so the rest was not read"
    assert (64 << 20) < len(found) < (68 << 20) + 2000 * len(data)


def test_a_log_that_repeats_itself_is_no_bomb() -> None:
    line = b"[rank0]: NCCL WARN Call to connect returned Connection refused, retrying\n"
    content = line * ((70 << 20) // len(line))
    for pack in (gzip.compress, lambda data: lzma.compress(data, preset=1)):
        data = pack(content)
        fresh = decompressor_for(data)
        assert fresh is not None
        assert sum(map(len, unpacked(io.BytesIO(data), fresh))) == len(content)


@pytest.mark.parametrize(
    "data",
    [
        lzma.compress(TEXT[:100], filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]),
        bytes.fromhex("28b52ffd00a8") + bytes(100),  # a window of 2 GB
    ],
    ids=["xz", "zst"],
)
def test_a_header_that_asks_for_more_memory_than_we_give_is_refused(data: bytes) -> None:
    assert unpack(data) == (b"", "it needs more than 64 MB of memory to be unpacked: pipe its text into `crashcart why -`")


def test_what_is_not_compressed_is_left_alone() -> None:
    assert decompressor_for(b"step 1 loss 0.5") is None
    assert decompressor_for(b"") is None


def test_of_what_repeats_itself_without_end_the_beginning_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_REPETITIVE_BYTES", 40 << 20)
    member = gzip.compress(b"step 1 loss 0.5\n" * (8 << 16))
    found, problem = unpack(member * 20)
    assert problem == f"it unpacks to more than 200 times its size: only its first {len(found) >> 20} MB were read"
    assert (40 << 20) < len(found) < (42 << 20)


def test_what_repeats_itself_gets_a_share_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_REPETITIVE_SECONDS", 0)
    for kind in ("gz", "xz", "zst"):
        found, problem = unpack(PACKERS[kind](bytes(50 << 20)))
        assert "times its size: only its first" in problem
        assert len(found) < 8 << 20


def test_a_log_that_packs_as_logs_do_is_unpacked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "_REPETITIVE_SECONDS", 0)
    monkeypatch.setattr(decompression, "_REPETITIVE_BYTES", 0)
    content = b"".join(b"[rank0]: step %d %s\n" % (step, b"loss 0.5 lr 0.0001 " * 60) for step in range(20_000))
    data = gzip.compress(content)
    assert 50 < len(content) / len(data) < 200
    assert unpack(data) == (content, "")
