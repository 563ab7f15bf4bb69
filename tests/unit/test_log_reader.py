"""Logs as they are: any size, encoding, compression and launcher; the same answer from all scan engines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import crashcart
from crashcart.cause import causes
from crashcart.errors import CommandError
from crashcart.readers.logs import read_logs, scanner
from crashcart.readers.logs.scan import scannable

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from healthy_lines import STYLES, healthy

CRASH = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    main()\nRuntimeError: CUDA out of memory.\n'
ENGINES = ["hyperscan", "re2", "stdlib"]


def first(path: Path) -> str:
    return crashcart.why([str(path)], look_around=False).findings[0].cause


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_a_compressed_log_reads_like_a_plain_one(tmp_path: Path, pack: object) -> None:
    (tmp_path / "log").write_bytes(pack(CRASH.encode()))  # type: ignore[operator]
    assert first(tmp_path / "log") == "gpu-memory/train-step"


def test_a_zst_log_reads_like_a_plain_one(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "log.zst").write_bytes(zstandard.compress(CRASH.encode()))
    assert first(tmp_path / "log.zst") == "gpu-memory/train-step"


def test_several_gzip_members_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"step 1\n") + gzip.compress(CRASH.encode()))
    assert first(tmp_path / "log.gz") == "gpu-memory/train-step"


def test_a_cut_gzip_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    noise = "".join(f"line {random.Random(number).random()}\n" for number in range(4000))
    packed = gzip.compress((CRASH + noise).encode())
    (tmp_path / "log.gz").write_bytes(packed[: len(packed) // 2])
    diagnosis = crashcart.why([str(tmp_path / "log.gz")])
    assert diagnosis.findings[0].cause == "gpu-memory/train-step"
    assert any("ends early" in gap.why for gap in diagnosis.not_looked)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "utf-8-sig"])
def test_the_encoding_is_told_from_the_bytes(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "log").write_bytes(("训练开始\n" + CRASH).encode(encoding))
    assert first(tmp_path / "log") == "gpu-memory/train-step"


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "twice"])
def test_a_kill_is_seen_in_the_language_of_the_shell(tmp_path: Path, encoding: str) -> None:
    text = "step 100 loss 0.2\ntrain.sh: 行 12: 31311 已杀死               python train.py\n"
    scrambled = text.encode().decode("cp1252", "ignore").encode()
    (tmp_path / "log").write_bytes(scrambled if encoding == "twice" else text.encode(encoding))
    assert first(tmp_path / "log") == "host-memory/oom-kill"


def test_line_numbers_count_line_feeds_only(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(
        b"a\rb\rc\n\n50%|#####| 1/2 [00:01<00:01]\r100%|##########| 2/2 [00:02<00:00]\n" + CRASH.encode()
    )
    assert crashcart.why([str(tmp_path / "log")]).findings[0].signs[0].evidence[0].where == "log:7"


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("[rank3]: ", 3), ("[default2]:[rank2]: ", 2), ("7: ", 7), ("[rank: 1] ", 1), ("[Rank 5] ", 5),
        ("(RayTrainWorker pid=911, ip=10.0.0.4) ", None), ("2026-11-15T07:12:01.123456789Z stdout F ", None),
        ("[pod/job-worker-2/pytorch] ", None), ("trainer-1  | ", 1), ("\x1b[36m(pid=4)\x1b[0m ", None),
    ],
)  # fmt: skip
def test_the_rank_is_told_from_the_prefix(tmp_path: Path, prefix: str, rank: int | None) -> None:
    (tmp_path / "log").write_text("".join(prefix + line + "\n" for line in CRASH.splitlines()))
    log = read_logs([str(tmp_path / "log")])
    assert [(one.kind, one.line.rank, one.top) for one in log.raised] == [("RuntimeError", rank, True)]


def test_the_rank_is_told_from_the_file_name(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}.log").write_text(CRASH if rank else "step 1 loss 0.2\n")
    diagnosis = crashcart.why([str(tmp_path)])
    assert diagnosis.ending.first_rank == 1


def test_interleaved_ranks_keep_their_own_stacks(tmp_path: Path) -> None:
    two = [f"[rank{rank}]: {line}" for line in CRASH.splitlines() for rank in (0, 1)]
    (tmp_path / "log").write_text("\n".join(two))
    assert [(one.line.rank, len(one.frames)) for one in read_logs([str(tmp_path / "log")]).raised] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("depth", [81, 3000])
def test_the_innermost_frame_of_a_deep_traceback_is_kept(tmp_path: Path, depth: int) -> None:
    frames = "".join(f'  File "f{number}.py", line {number}, in g{number}\n    h()\n' for number in range(depth))
    (tmp_path / "log").write_text(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    raised = read_logs([str(tmp_path / "log")]).raised[-1]
    assert raised.frames[-1].file == f"f{depth - 1}.py"


def test_a_thousand_rank_logs_are_one_run(tmp_path: Path) -> None:
    for rank in range(1000):
        (tmp_path / f"rank_{rank}.log").write_text(CRASH if rank == 617 else "step 1 loss 0.2\n" * 50)
    diagnosis = crashcart.why([str(tmp_path)])
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("gpu-memory/train-step", 617)


def test_the_last_of_several_attempts_is_the_one_that_counts(tmp_path: Path) -> None:
    banner = "==> launching train.py with config base.yaml\nstep 1 loss 2.0\n"
    (tmp_path / "log").write_text(
        banner + CRASH + banner + CRASH.replace("RuntimeError: CUDA out of memory.", "KeyError: 'top5'")
    )
    assert [finding.cause for finding in crashcart.why([str(tmp_path / "log")]).findings[:2]] == [
        "code/bug",
        "gpu-memory/train-step",
    ]


def test_a_restart_by_the_launcher_does_not_hide_the_first_cause(tmp_path: Path) -> None:
    restart = "INFO torch.distributed.elastic: [default] Worker group FAILED. 2/2 attempts left; will restart worker group\n"
    later = CRASH.replace("RuntimeError: CUDA out of memory.", "torch.distributed.DistNetworkError: Connection refused")
    (tmp_path / "log").write_text(CRASH + restart + later)
    assert first(tmp_path / "log") == "gpu-memory/train-step"


def test_a_line_of_megabytes_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(
        b"x" * (5 << 20) + b" RuntimeError: CUDA out of memory. " + b"y" * (5 << 20) + b"\n" + CRASH.encode()
    )
    assert first(tmp_path / "log") == "gpu-memory/train-step"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_traceback_far_from_the_end_is_found(tmp_path: Path, engine: str) -> None:
    text = "\n".join(healthy(30_000, 1, "ranks")).encode()
    (tmp_path / "log").write_bytes(text + b"\n" + CRASH.replace("\n", "\n[rank9]: ").encode() + b"\n" + text)
    assert scanner(engine=engine).engine == engine
    log = read_logs([str(tmp_path / "log")], engine=engine)
    assert [one.kind for one in log.raised if one.kind] == ["RuntimeError"]


def test_all_engines_keep_the_same_lines(tmp_path: Path) -> None:
    pieces = ["\r\n".join(healthy(3_000, seed, style)) for seed, style in enumerate(STYLES)]
    incidents = "\n".join(
        path.read_text(errors="replace") for path in sorted((Path(__file__).parents[1] / "cases").rglob("*.md"))
    )
    (tmp_path / "log").write_text("\n".join(part for piece in pieces for part in (piece, incidents)))
    kept = [
        [(line.number, line.text) for line in read_logs([str(tmp_path / "log")], engine=engine).lines] for engine in ENGINES
    ]
    assert kept[0] == kept[1] == kept[2]


def test_memory_stays_flat_whatever_the_size(tmp_path: Path) -> None:
    block = ("\n".join(healthy(20_000, 3, "hf")) + "\n").encode()
    with (tmp_path / "log").open("wb") as file:
        for _ in range(40):
            file.write(block)
    code = (
        f"from crashcart.readers.logs import read_logs; read_logs([{str(tmp_path / 'log')!r}]); "
        "print([line for line in open('/proc/self/status') if 'VmHWM' in line][0].split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 10, f"{int(done.stdout) >> 10} MB"


def test_a_growing_file_is_read_to_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(CRASH)
    writer = subprocess.Popen(["bash", "-c", f"while :; do echo step 1 loss 0.3 >> {path}; done"])
    try:
        assert first(path) == "gpu-memory/train-step"
    finally:
        writer.kill()
        writer.wait()


def test_a_pipe_is_refused_with_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CommandError, match="not a file"):
        read_logs([str(tmp_path / "fifo")])


def test_few_literals_are_too_short_for_the_scanner() -> None:
    literals = [literal for cause in causes() for phrase in cause.phrases for literal in phrase.literals]
    short = [literal for literal in literals if not scannable(literal)]
    assert len(short) < 0.02 * len(literals), short


def test_healthy_step_lines_hold_nothing_of_interest() -> None:
    scan = scanner(engine="stdlib")
    for style in STYLES:
        text = bytearray(
            "\n".join(line for line in healthy(400, 5, style) if "loss" in line and "Warning" not in line).encode()
        )
        hits = list(scan.lines(text, 0, len(text)))
        assert len(hits) <= 4, (style, [bytes(text[a:b])[:100] for a, b in hits[:3]])


def test_a_trend_over_the_whole_run_is_seen_in_a_large_log(tmp_path: Path) -> None:
    chance = random.Random(7)
    with (tmp_path / "log").open("w") as file:
        for step in range(60_000):
            file.write(
                f"step {step} loss {2 + chance.random():.4f} lr 1e-4 | host rss {10_000 + step // 2} MB | {'x' * 60}\n"
            )
        file.write("train.sh: line 3: 4242 Killed                  python train.py\n")
    assert first(tmp_path / "log") == "host-memory/leak"
