"""No input makes us take 150 MB: each is read by a process of its own, whose largest size the kernel tells."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest
from planted_runs import write_run

from crashcart.recording.frames import Sample, pack_header, pack_sample
from crashcart.recording.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)
LARGEST_MB = 150
PROGRAM = """
import sys
from crashcart.cli import main
code = main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f"\\n{int(peak.split()[1]) // 1024} {code}")
"""


def _zeros(packer: bz2.BZ2Compressor | lzma.LZMACompressor, megabytes: int) -> bytes:
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(megabytes)) + packer.flush()


def _file(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return write


def _sparse(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as file:
            file.truncate(1 << 40)

    return write


def _job(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "train.sh").write_text(f"python train.py --config {name}\n")
        (folder / "train.py").write_text(f"import torch, other\ncfg = open('{name}')\n")
        (folder / name).write_bytes(content)

    return write


def _records(folder: Path) -> None:
    (folder / "ck").mkdir()
    with zipfile.ZipFile(folder / "ck" / "model.pt", "w") as archive:
        for number in range(20_000):
            archive.writestr(f"model/data/{number}", b"")
        archive.writestr("model/data.pkl", pickle.dumps({}))


def _recording(folder: Path) -> None:
    rows = [[float(row)] * len(TABLES["process"]) for row in range(100)]
    one = Sample(0.0, 1.0, {"process": rows})
    minute = b"".join(pack_sample(one._replace(time=1.7e9 + at), list(TABLES)) for at in range(200))
    events = b"".join(
        json.dumps({"t": 1.7e9 + at, "kind": "exception", "message": "x" * 6000, "frames": ["a"] * 30}).encode() + b"\n"
        for at in range(20_000)
    )
    write_run(folder / "run", "honest")
    for number in range(60):
        (folder / "run" / "recording" / f"samples-{number}.z").write_bytes(zlib.compress(pack_header(TABLES) + minute))
    (folder / "run" / "recording" / "events.jsonl").write_bytes(events)


HEADER = b"{" + b",".join(b'"a%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % at for at in range(300_000)) + b"}"
INPUTS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "bz2": (_file("a.log", _zeros(bz2.BZ2Compressor(), 500)), ["why", "a.log"]),
    "xz": (_file("a.log", _zeros(lzma.LZMACompressor(preset=9), 300)), ["why", "a.log"]),
    "one line": (_file("a.log", b"x" * (120 << 20)), ["why", "a.log"]),
    "terabyte": (_sparse("a.log"), ["why", "a.log"]),
    "kernel log": (_file("a.log", _zeros(bz2.BZ2Compressor(), 500)), ["why", ".", "--kernel-log", "a.log"]),
    "yaml": (_job("c.yaml", b"- a\n" * 1_200_000), ["check", "train.sh"]),
    "brackets": (_job("c.yaml", b"[" * 4_000_000), ["check", "train.sh"]),
    "merges": (_job("c.yaml", b"a0: &a0 {x: 1}\n" + b"".join(b"a%d: &a%d {<<: [*a%d, *a%d]}\n" % (at, at, at - 1, at - 1) for at in range(1, 90))), ["check", "train.sh"]),
    "json": (_job("c.json", b"[" + b"{}," * 1_600_000 + b"{}]"), ["check", "train.sh"]),
    "python": (_job("other.py", b"import torch\n" + b"f();" * 26_000), ["check", "train.sh"]),
    "numbers": (_job("other.py", b"import torch\nx = [" + b"0," * 900_000 + b"]"), ["check", "train.sh"]),
    "header": (_file("ck/model.safetensors", struct.pack("<Q", len(HEADER)) + HEADER), ["why", "."]),
    "pickle": (_file("ck/model.pkl", b"\x80\x02(" + b"}" * 3_000_000 + b"l."), ["why", "."]),
    "laughs": (_file("ck/model.pkl", b"\x80\x04]q\0" + b"".join(b"(" + (b"h" + bytes([at])) * 10 + b"lq" + bytes([at + 1]) for at in range(60)) + b"h\x3ch\x3c\x93."), ["why", "."]),
    "records": (_records, ["why", "."]),
    "tokenizer": (_file("ck/tokenizer.json", b"[" + b"{}," * 5_000_000 + b"{}]"), ["why", "."]),
    "recording": (_recording, ["why", "run"]),
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_it_is_read_within_the_memory_that_we_allow_ourselves(tmp_path: Path, name: str) -> None:
    write, words = INPUTS[name]
    write(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    peak, code = done.stderr.split()[-2:]
    assert code in "012"
    assert int(peak) < LARGEST_MB
