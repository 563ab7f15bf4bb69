"""The fields of which generated inputs are made: numbers as nobody expects them, texts that fight back, secrets, times, paths.

A template is text with fields in angle quotes: ``step «n» loss «x»``. Most fields are ordinary, so that an input still has the
shape of what a program writes; a fifth is extreme.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["FIELDS", "NUMBERS", "SECRETS", "TEXTS", "Secret", "extreme", "filled", "numbers", "words"]

NUMBERS = (
    "9" * 5000, "0" * 5000, "9" * 400, "1" * 4301, "1" + "0" * 400, "-" + "9" * 400, "²", "½", "１２", "٣٤٥", "𝟙𝟚", "1__0", "1_000", "_1",
    "1_e5", "1e_5", "1e400", "-1e400", "1e-400", "1e99999", "1e", "e5", ".", "1.", ".5", "-.", "+5", "--5", "nan", "-nan", "NaN",
    "inf", "-inf", "Infinity", "∞", "-0", "-0.0", "-1", "", " ", "0x10", "0b1", "0o7", "1,000,000", "1.2.3", "1/0", "10**400", "none",
    "None", "null", "true", "18446744073709551616", "9223372036854775808", "4294967296", "2147483648", "99999999999999999999",
    "1e308", "1e309", "0.1e1", "1E5", "1e5", "5e-324", "1:2:3", "99:99:99", "1k", "1M", "1G", "\u0661", "1\u00a0000", "1'000", "(5)", "5)", "%d", "{n}",
)  # fmt: skip
LONG_WORDS = (
    "x" * 20_000, "dataloader" * 40, "a." * 3000, "_" * 5000, "[" * 3000, "(" * 2000 + ")" * 2000, "/" * 4000, "=" * 3000, "-" * 3000, " " * 5000,
    "\\" * 2001, "'" * 999, '"' * 999, "{" * 2000, "File " * 500, "Error" * 600, "step 1 " * 800, "0 " * 3000, "a-" * 2500, "loss=" * 700, ":" * 3000,
)  # fmt: skip
TEXTS = (
    "\x00", "\x01\x02\x07", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x9b31m", "\u202eevil\u202c", "\u200b\u200f", "\ufeff", "\ud800", "\udcff",
    "\udc80x", "é", "e\u0301" * 50, "日本語のエラー", "🚀" * 20, "Ошибка", "İ", "ß", "ﬁ", "\u2028", "\x85", "\x0c", "\x0b", "\t\t", "%s%n%x", "{0}{x!r}", "{{}}",
    "$(reboot)", "`id`", "'; DROP TABLE runs;--", "<script>alert(1)</script>", "&amp;<b>", "[bold red]x[/]", "[/red]", "../../../etc/passwd", "~/x", "C:\\new\\table",
    "''", '""', '"""', "#", "# crashcart: ignore[config/type]", "None", "null", "[]", "{}", "Traceback (most recent call last):", "RuntimeError:", "...", "",
    "a\\", "\\u0000", "\\x1b[31m", "\N{REPLACEMENT CHARACTER}", "￾", "a" * 255, "train.py", "cuda:0", "model.layers.0.weight", "Error", "killed", "nan",
)  # fmt: skip
ORDINARY = (
    "train", "loss", "model", "epoch", "data", "worker", "gpu", "the batch is empty", "no such file", "connection reset by peer", "shape mismatch",
    "expected scalar type Half but found Float", "list index out of range", "'NoneType' object is not iterable", "layer3.conv", "resnet50",
)  # fmt: skip


class Secret(NamedTuple):
    """A text as it stands in a log or config, and the part of it that must not be shown."""

    text: str
    hidden: str


_HEX = "3f9a1c0b7e5d2846a1b2c3d4e5f60718293a4b5c"
SECRETS = tuple(
    Secret(text.replace("@@", hidden), hidden)
    for text, hidden in (
        ("@@", "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"),
        ("WANDB_API_KEY=@@", _HEX),
        ("wandb login @@", "9" + _HEX[1:]),
        ("AWS_ACCESS_KEY_ID=@@", "AKIAQYLPMN5HFIQR7XYA"),
        ("AWS_SECRET_ACCESS_KEY=@@", "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"),
        ("AWS_SESSION_TOKEN=@@", "FwoGZXIvYXdzEBYaDKqzcwexamplesession0123"),
        ("admin_token: @@", "s3cr3tAdm1nT0kenValue"),
        ("Authorization: Bearer @@", "abcdef0123456789.ghijkl"),
        ("https://user:@@@git.example.org/x.git", "p4ssw0rdInUrl99"),
        ("redis://:@@@cache:6379/0", "r3disPassw0rd77"),
        ("['--api_key', '@@']", "k3yInAnArgumentList42"),
        ("--api_key=@@", "k3yAsAFlagValue4242"),
        ("password: @@", "hunter2hunter2"),
        ("DB_PASS=@@", "dbPassw0rdValue1"),
        ("passphrase=@@", "correcthorsebattery"),
        ("machine api.wandb.ai login user password @@", "netrcPassw0rd123"),
        ("curl -u user:@@ https://x", "curlPassw0rd55"),
        ("sshpass -p @@ ssh host", "sshPassw0rd66"),
        ("@@", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
        ("@@", "glpat-ABCDEFGHIJKLMNOPQRST"),
        ("@@", "xoxb-123456789012-abcdefghijkl"),
        ("@@", "sk-proj-abcdefghijklmnopqrstuvwxyz012345"),
        ("https://x.s3.amazonaws.com/a?X-Amz-Signature=@@", "b" * 20 + "0123456789abcdef" * 2 + "c" * 12),
        ("Cookie: session=@@", "c00kieSessionValue123"),
        ("AccountKey=@@;EndpointSuffix=core.windows.net", "QWNjb3VudEtleVZhbHVlMTIzNDU2Nzg5MDEyMzQ1Ng=="),
        ('"client_secret": "@@"', "clientSecretValue777"),
    )
)

extreme = st.sampled_from(NUMBERS)
_whole = st.integers(0, 5000).map(str)
_decimal = st.floats(0, 100, allow_nan=False).map(lambda value: f"{value:.4f}")
numbers = st.one_of(_whole, _whole, _whole, _whole, extreme)
_fractions = st.one_of(_decimal, _decimal, _decimal, _decimal, extreme)
words = st.one_of(
    *[st.sampled_from(ORDINARY)] * 5,
    st.sampled_from(TEXTS),
    st.sampled_from(LONG_WORDS),
    st.text(max_size=40),
)
_secrets = st.sampled_from(SECRETS).map(lambda secret: secret.text)
_paths = st.one_of(
    *[
        st.sampled_from(
            (
                "train.py",
                "/app/train.py",
                "src/model.py",
                "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py",
                "<frozen runpy>",
            )
        )
    ]
    * 4,
    words.map(lambda word: f"/data/{word}.py"),
)
_times = st.one_of(
    *[
        st.tuples(st.integers(1, 28), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)).map(
            lambda parts: "2026-11-{:02d} {:02d}:{:02d}:{:02d}".format(*parts)
        )
    ]
    * 4,
    st.tuples(numbers, numbers).map(lambda parts: f"{parts[0]}-11-15 08:{parts[1]}:01"),
    extreme,
)
FIELDS: dict[str, SearchStrategy[str]] = {
    "n": numbers,
    "x": _fractions,
    "t": words,
    "p": _paths,
    "time": _times,
    "rank": st.one_of(*[st.sampled_from(("0", "1", "3"))] * 5, extreme),
    "pid": st.one_of(*[st.integers(2, 99_999).map(str)] * 5, extreme),
    "secret": st.one_of(st.sampled_from(ORDINARY), st.sampled_from(ORDINARY), _secrets),
    "error": st.sampled_from((
        "RuntimeError", "ValueError", "KeyError", "torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError", "OSError", "FileNotFoundError", "EOFError",
        "ConnectionResetError", "AssertionError", "ZeroDivisionError", "BrokenPipeError", "torch.distributed.DistBackendError", "KeyboardInterrupt",
        "RecursionError", "MemoryError", "ImportError", "yaml.scanner.ScannerError", "wandb.errors.CommError", "UnicodeDecodeError", "my.pkg.Ошибка",
    )),
    "size": st.tuples(_fractions, st.sampled_from(("GiB", "MiB", "KiB", "bytes", "kB", "", "PiB"))).map(" ".join),
    "host": st.sampled_from(("node-12", "10.0.4.12", "vm", "gpu01.cluster", "::1")),
    "signal": st.sampled_from(("SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGINT", "SIGUSR1", "SIGRTMIN+3", "SIGNOPE")),
}  # fmt: skip
_FIELD = re.compile("«(\\w+)»")


def filled(template: str) -> SearchStrategy[str]:
    """The text of a template with its fields drawn."""
    pieces = _FIELD.split(template)
    fixed, names = pieces[::2], pieces[1::2]

    def joined(values: tuple[str, ...]) -> str:
        return fixed[0] + "".join(value + after for value, after in zip(values, fixed[1:], strict=True))

    return st.tuples(*(FIELDS[name] for name in names)).map(joined)
