"""Folders: runs as `crashcart run` records them (damaged, hostile, with links and pipes planted), checkpoints, odd file names."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

from extreme_fields import NUMBERS, SECRETS, TEXTS, words
from generated_logs import kernel_logs, logs
from hypothesis import strategies as st

from crashcart.inside.layout import FIELDS
from crashcart.recording.frames import Sample, pack_header, pack_sample
from crashcart.recording.tables import TABLES

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Fifo", "Link", "checkpoints", "file_names", "run_folders"]

NOW = 1_700_000_000.0


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class Fifo(NamedTuple):
    """A named pipe that nobody writes to."""


Content = bytes | Link | Fifo

ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 10**30, 10**400, 1e308, float("nan"), float("inf"), -float("inf"), "", "x" * 20_000, "\x1b[31m", "nan", "\ud800", [], {}, [None], [[]],
    [1, "a", None], {"a": []}, {"pid": "x"}, ['File "a", line 3, in b'] * 3, "../../etc", "/dev/zero", "²", NOW, SECRETS[0].text, SECRETS[1].text, [[[[[[]]]]]], *NUMBERS[:3],
)  # fmt: skip
_odd = st.sampled_from(ODD)
EVENTS: tuple[dict[str, Any], ...] = (
    {"kind": "started", "job": 2, "command": "torchrun train.py"},
    {"kind": "process", "pid": 2, "start": 1, "parent": 1, "role": "launcher", "rank": None, "command": "torchrun train.py", "copy": False},
    {"kind": "process", "pid": 10, "start": 1, "parent": 2, "role": "rank", "rank": 0, "command": "python train.py", "copy": False},
    {"kind": "process", "pid": 11, "start": 1, "parent": 2, "role": "rank", "rank": 1, "command": "python train.py", "copy": False},
    {"kind": "process", "pid": 12, "start": 1, "parent": 10, "role": "loader worker", "rank": 0, "command": "python", "copy": True},
    {"kind": "stacks", "reason": "suspicion", "folder": "stacks/001", "processes": 3},
    {"kind": "hang", "seconds": 70.0, "since": NOW, "phase": "train", "rank": 1, "pid": 11, "where": "a.py:3 in f", "why": "it is", "works": False, "call": "futex", "waiting": [0]},
    {"kind": "goes-on"},
    {"kind": "signal", "signal": "SIGTERM", "sender": 3, "name": "slurmstepd"},
    {"kind": "sent", "signal": "SIGKILL"},
    {"kind": "alarm", "alarm": "spike", "says": "a word"},
    {"kind": "xid", "card": 0, "number": 79},
    {"kind": "hello", "how": "start", "python": "3.11", "argv": ["train.py"], "parent": 2},
    {"kind": "optimizer", "class": "SGD", "groups": 1, "tensors": 2, "parameters": 9},
    {"kind": "lr", "step": 1, "before": [], "rates": [0.1], "groups": 1},
    {"kind": "phase", "phase": "load", "edge": "end", "seconds": 2.0, "path": "a.pt", "lr": 0.1, "step": 0},
    {"kind": "phase", "phase": "evaluate", "edge": "end", "seconds": 0.1, "batches": 0, "step": 5},
    {"kind": "nonfinite", "step": 3, "what": "loss", "value": "nan", "batch": 4, "fields": [{"field": "x", "values": 1, "samples": [2]}]},
    {"kind": "checkpoint", "path": "b.pt", "bytes": 5, "seconds": 3.0, "how": "torch.save", "step": 5},
    {"kind": "save-failed", "path": "c.pt", "bytes": 5, "free": 0, "total": 9, "inodes": 3, "mount": "/"},
    {"kind": "tracker", "call": "log", "seconds": 99.0, "library": "wandb"},
    {"kind": "compile", "seconds": 9.0, "recompiles": 3, "frame": "f"},
    {"kind": "oom", "device": 0, "phase": "train", "allocated": 5, "reserved": 9, "free": 1, "total": 10, "largest": 3},
    {"kind": "exception", "type": "torch.OutOfMemoryError", "message": "CUDA out of memory. Tried to allocate 2.00 GiB", "because": ["OSError: [Errno 28]"], "frames": ["/a/train.py:3 main"], "thread": "MainThread", "phase": "train", "step": 7, "locals": []},
    {"kind": "exit", "step": 7},
    {"kind": "gone", "pid": 12, "signal": "SIGKILL"},
    {"kind": "gone", "pid": 10, "code": 1},
    {"kind": "ended", "pid": 11},
    {"kind": "end", "code": 1, "signal": None, "left": []},
)  # fmt: skip
RUN: dict[str, Any] = {
    "schema": 1, "crashcart": "0.1.0", "command": "torchrun --nproc-per-node 2 train.py", "folder": "/", "started": NOW, "host": "vm", "user": "me", "python": "3.11.7",
    "machine": {"system": "Linux", "cores": 2, "memory": 25276518400, "open_files": 20000, "boot": "x"}, "interpreter": "/usr/bin/python", "environment": {"LANG": "C.UTF-8"},
    "git": {}, "state": "failed", "live": "/dev/shm/crashcart-gone", "variables": [], "attempt": 1, "before": [], "pid": 3, "keeper": 4, "job": 2, "cards": [], "code": 1,
    "signal": None, "ended": NOW + 60, "left": [], "logs": ["output.log"], "lost": 0,
}  # fmt: skip
FINDINGS: dict[str, Any] = {
    "schema": 1, "verb": "why", "subject": "x", "run": "x", "ending": {"state": "crashed", "exit_code": 1},
    "findings": [{"cause": "code/bug", "role": "cause", "title": "x"}], "stages": [{"program": "train.py", "role": "training", "ending": {"state": "crashed"}, "decided": True}] * 2,
}  # fmt: skip


@st.composite
def _spoilt(draw: st.DrawFn, table: dict[str, Any], chance: int) -> dict[str, Any]:
    """A table with some values replaced and some left out."""
    spoilt = dict(table)
    for name in draw(st.sets(st.sampled_from(sorted(table)), max_size=max(1, len(table) * chance // 100))):
        if draw(st.integers(0, 4)):
            spoilt[name] = draw(_odd)
        else:
            del spoilt[name]
    return spoilt


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def _events(draw: st.DrawFn) -> bytes:
    chosen = draw(st.lists(st.integers(0, len(EVENTS) - 1), max_size=14))
    lines = []
    for number, at in enumerate(chosen):
        told = {"t": NOW + number, "m": 5.0, **EVENTS[at]}
        lines.append(_json(draw(_spoilt(told, 30)) if draw(st.booleans()) else told))
    return b"\n".join(lines) + draw(
        st.sampled_from((b"\n", b"", b"\n{", b"\nnull\n7\n[]\n", b"\n\xff\x00\n", b"\n" + b'{"a":' * 2000))
    )


@st.composite
def _samples(draw: st.DrawFn) -> bytes:
    columns = {**TABLES, "page": FIELDS}
    odd = st.sampled_from((float("nan"), float("inf"), -1.0, 0.0, 1.0, 1e300, 10.0, 11.0, 2.0))
    data = pack_header(columns)
    for second in range(draw(st.integers(0, 3))):
        row = draw(st.lists(odd, min_size=4, max_size=4))
        tables = {name: [(row * len(names))[: len(names)]] for name, names in columns.items()}
        data += pack_sample(Sample(draw(st.one_of(st.just(NOW + second), odd)), float(second), tables), list(columns))
    return data[: draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))] + draw(
        st.sampled_from((b"", b"", b"\xff" * 40))
    )


_PLANTED: SearchStrategy[Content] = st.sampled_from((
    Link("/dev/zero"), Link("/dev/null"), Link("/etc/passwd"), Link("victim"), Link("../victim"), Link("."), Link("nowhere"), Link("/proc/self/mem"), Link("/proc/kmsg"), Fifo(), b"", b"\0" * 100, b"[]", b"null", b"{",
    b'{"a":' * 3000, b"\xff\xfe", b"[" * 100_000,
))  # fmt: skip
_PLACES = (
    "run.json", "exit.json", "findings.json", "findings.json.new", "run.json.new", "command", "recording/events.jsonl", "recording/samples-1", "recording/samples-2.z", "recording/inside/10-1.events",
    "logs/output.log", "logs/rank0.log", "kernel.log", "stacks/001/rank-0-10.txt", "nccl/rank_0", "nodes/a/run.json", "git.diff", "latest",
)  # fmt: skip


@st.composite
def run_folders(draw: st.DrawFn) -> dict[str, Content]:
    """The files of a run folder by name."""
    files: dict[str, Content] = {
        "run.json": _json(draw(_spoilt(RUN, 20))),
        "exit.json": _json(draw(_spoilt({"code": 1, "signal": None, "time": NOW + 60}, 40))),
        "command": draw(words).encode("utf-8", "replace"),
        "logs/output.log": draw(logs).encode("utf-8", "surrogatepass"),
        "recording/events.jsonl": draw(_events()),
        "recording/inside/10-1.events": draw(_events()),
        "recording/samples-1": draw(_samples()),
        "stacks/001/rank-0-10.txt": b'Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f\n',
    }
    if draw(st.booleans()):
        files["findings.json"] = _json(draw(_spoilt(FINDINGS, 30)))
    if draw(st.integers(0, 3)) == 0:
        files["kernel.log"] = draw(kernel_logs).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 5)) == 0:
        files |= {f"nodes/a/{name}": content for name, content in files.items() if name != "findings.json"}
        files["nodes/b/run.json"] = _json(draw(_spoilt(RUN, 20)))
    for place in draw(st.sets(st.sampled_from(_PLACES), max_size=2)):
        files[place] = draw(_PLANTED)
    return files


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


_STATE = pickle.dumps({"step": 5, "epoch": 1, "model": [1, 2.0, "x", b"y", None, (1, {2})]}, 2)
_BIG = pickle.dumps({"step": 10**400, "global_step": -1, "iteration": 2**70, "epoch": float("nan")}, 2)
_HEADER = b'{"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"step": "5"}}'
WHOLE = {
    "model.pt": _zipped({"archive/data.pkl": _STATE, "archive/data/0": b"x" * 90, "archive/version": b"3\n"}),
    "checkpoint-5.pt": _zipped({"archive/data.pkl": _BIG, "archive/data/0": b"x" * 90}),
    "model.safetensors": struct.pack("<Q", len(_HEADER)) + _HEADER + b"x" * 24,
    "legacy.pth": pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2) + _STATE + pickle.dumps(["0"], 2) + struct.pack("<Q", 1) + b"x" * 4,
    "optimizer.bin": _STATE,
    "state.pkl": _BIG,
}  # fmt: skip


@st.composite
def _damaged(draw: st.DrawFn, content: bytes) -> bytes:
    kind = draw(st.integers(0, 5))
    at = draw(st.integers(0, len(content)))
    if kind == 0:
        return content
    if kind == 1:
        return content[:at]
    if kind == 2:
        return content[:at] + draw(st.binary(max_size=12)) + content[at + 4 :]
    if kind == 3:  # a header that promises more than there is
        return struct.pack("<Q", draw(st.sampled_from((0, 1, 2**31, 2**53, 2**63, 2**64 - 1)))) + content[8:]
    if kind == 4:
        return content.replace(b"24", draw(st.sampled_from((b"-1", b"9" * 400, b"1e400", b"null", b"[]", b"2.5"))))
    return content * 2


@st.composite
def checkpoints(draw: st.DrawFn) -> dict[str, Content]:
    """A folder of checkpoints, some damaged, with the files that trainers leave beside them."""
    files: dict[str, Content] = {}
    for name in draw(st.sets(st.sampled_from(sorted(WHOLE)), min_size=1, max_size=3)):
        folder = draw(
            st.sampled_from(
                (
                    "",
                    "checkpoint-5/",
                    "checkpoint-²/",
                    "checkpoint-" + "9" * 100 + "/",
                    "epoch=1-step=1e400/",
                    "global_step5/",
                    "last/",
                )
            )
        )
        files[folder + name] = draw(_damaged(WHOLE[name]))
    odd = st.sampled_from(ODD)
    if draw(st.booleans()):
        files["checkpoint-5/trainer_state.json"] = _json(
            {"global_step": draw(odd), "epoch": draw(odd), "log_history": draw(odd)}
        )
    if draw(st.booleans()):
        files["wandb/run-1/files/wandb-summary.json"] = _json(
            {"_step": draw(odd), "loss": draw(odd), "_runtime": draw(odd), "_timestamp": draw(odd)}
        )
    if draw(st.booleans()):
        files["model.safetensors.index.json"] = _json({"weight_map": draw(odd), "metadata": {"total_size": draw(odd)}})
    if draw(st.booleans()):
        files["mlruns/0/abc/meta.yaml"] = (
            b"status: "
            + str(draw(odd)).encode("utf-8", "replace")[:5000]
            + b"\nend_time: "
            + str(draw(st.sampled_from(NUMBERS))).encode()
            + b"\n"
        )
    if draw(st.booleans()):
        files["latest"] = draw(st.sampled_from((b"global_step5", b"../..", b"\0", b"x" * 5000, b"", b"\xff")))
    if draw(st.integers(0, 3)) == 0:
        files[
            draw(
                st.sampled_from(("model.pt", "latest", "checkpoint-5", "train.log", "wandb/run-1/files/wandb-summary.json"))
            )
        ] = draw(_PLANTED)
    return files  # fmt: skip


file_names: SearchStrategy[str] = st.one_of(
    *[st.sampled_from(("train.log", "rank0.log", "rank1.log", "slurm-123.out", "out.txt", "nohup.out"))] * 4,
    st.sampled_from(TEXTS).map(lambda text: text.replace("/", "_").replace("\0", "")[:80] + ".log"),
    st.sampled_from(NUMBERS).map(lambda number: f"rank{number[:100]}.log".replace("/", "_")),
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=60).map(lambda text: text + ".log"),
).filter(lambda name: len(name.encode("utf-8", "surrogatepass")) < 250)
