"""The command line: what it offers is frozen, what it costs to start is counted, and it never shows a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from crashcart.arguments import parser

if TYPE_CHECKING:
    from pathlib import Path

CRASHED = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nRuntimeError: CUDA out of memory.\n'
FLAGS = {
    "why": [
        "--command",
        "--config",
        "--exit-code",
        "--fix",
        "--fix-all",
        "--help",
        "--html",
        "--json",
        "--kernel-log",
        "--long",
        "--pid",
        "-h",
        "paths",
    ],
    "run": ["--grace", "--hang-seconds", "--help", "--no-inject", "--notify", "--on-hang", "--quiet", "-h", "command"],
    "check": ["--against", "--fix", "--fix-all", "--help", "--json", "--notes", "--show-job", "--strict", "-h", "paths"],
    "doctor": ["--active", "--help", "--json", "-h", "paths"],
    "runs": ["--help", "--json", "-h"],
    "checkpoints": ["--full", "--help", "--json", "-h", "paths"],
    "explain": ["--help", "-h", "cause"],
    "completion": ["--help", "-h", "shell"],
}


def crashcart(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crashcart", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_the_verbs_and_flags_are_these() -> None:
    verbs = next(action for action in parser()._actions if action.dest == "verb").choices
    assert verbs is not None
    found = {
        name: sorted(word for action in verb._actions for word in (action.option_strings or [action.dest]))
        for name, verb in verbs.items()  # type: ignore[attr-defined]
    }
    assert found == FLAGS


def modules(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split("\n")[-2].split())


def test_importing_crashcart_loads_next_to_nothing() -> None:
    added = modules("import crashcart") - modules("pass")
    assert {name for name in added if name.startswith("crashcart")} == {"crashcart", "crashcart.version"}
    assert len(added) <= 3


def test_the_library_loads_nothing_before_a_piece_is_asked_for() -> None:
    added = modules("import crashcart.train") - modules("import importlib")
    assert {name for name in added if name.startswith("crashcart")} == {"crashcart", "crashcart.train", "crashcart.version"}
    assert len(added) <= 4


def test_help_loads_no_verb_and_no_library() -> None:
    code = "import crashcart.cli\ntry:\n crashcart.cli.main(['--help'])\nexcept SystemExit: pass"
    added = modules(f"exec({code!r})") - modules("import argparse")
    assert {name for name in added if name.startswith("crashcart.")} <= {
        "crashcart.cli",
        "crashcart.arguments",
        "crashcart.numbers",
        "crashcart.escapes",
        "crashcart.version",
    }
    assert len(added) <= 11


def test_json_needs_no_rich_no_yaml_no_psutil(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(CRASHED)
    code = f"import crashcart.cli; crashcart.cli.main(['why', '--json', {str(tmp_path / 'a.log')!r}])"
    assert not {"rich", "yaml", "psutil", "jinja2", "re2", "torch", "tree_sitter", "tree_sitter_bash"} & modules(code)


def test_json_is_the_only_thing_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(CRASHED)
    data = json.loads(crashcart("why", "--json", str(tmp_path / "a.log")).stdout)
    assert list(data) == [
        "schema",
        "verb",
        "subject",
        "run",
        "ending",
        "stages",
        "story",
        "findings",
        "ruled_out",
        "not_looked",
    ]
    assert list(data["ending"]) == ["state", "exit_code", "signal", "step", "optimizer_steps", "phase", "first_rank"]
    finding = data["findings"][0]
    assert list(finding) == [
        "cause", "title", "role", "level", "strength", "score", "evidence", "against", "fixes", "experiment", "verdict",
    ]  # fmt: skip
    assert finding["cause"] == "gpu-memory/train-step"
    assert finding["evidence"][0] == {
        "source": "log",
        "where": "a.log:4",
        "quote": "RuntimeError: CUDA out of memory.",
        "rank": None,
        "time": None,
    }
    assert set(finding["fixes"][0]) >= {"title", "safety", "diff", "arguments", "environment"}
    assert set(finding["experiment"]) == {"title", "change", "start_from", "stop_after", "confirms", "refutes"}


def test_the_first_line_is_the_answer_and_all_fit_into_80_columns(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(CRASHED)
    lines = crashcart("why", str(tmp_path / "a.log")).stdout.splitlines()
    assert lines[0] == "The training step does not fit into GPU memory."
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["why", "missing.log"], 2, "missing.log: No such file or directory"),
        (["explain", "gpu-memory/leek"], 2, "Did you mean gpu-memory/leak"),
        (["explain", "memory"], 2, "matches several causes"),
        (["why", "--config", "missing.yaml", "-"], 2, "missing.yaml"),
        (["why", "--kernel-log", "missing.txt", "-"], 2, "missing.txt"),
        (["why", "--exit-code", "many"], 2, "many is not a whole number"),
        (["nonsense"], 2, "invalid choice"),
    ],
)
def test_a_wrong_call_gets_a_sentence_and_an_exit_code(arguments: list[str], code: int, words: str) -> None:
    done = crashcart(*arguments, input="")
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert words in done.stderr


def test_standard_input_is_a_log() -> None:
    data = json.loads(crashcart("why", "--json", "-", input=CRASHED).stdout)
    assert data["findings"][0]["evidence"][0]["where"] == "standard input:4"


def test_explain_lists_every_cause_and_shows_a_page() -> None:
    listed = crashcart("explain").stdout
    assert "eval-or-sample" in listed
    assert "not-enough-evidence" in listed
    page = crashcart("explain", "eval-or-sample").stdout
    assert page.startswith("gpu-memory/eval-or-sample: ")
    for heading in ("What happens:", "Why:", "How it shows:", "What to do:"):
        assert heading in page


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(CRASHED)
    script = f"{sys.executable} -m crashcart why {tmp_path / 'a.log'} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert "Traceback" not in done.stderr


def test_completion_scripts_are_made() -> None:
    pytest.importorskip("shtab")
    assert "crashcart" in crashcart("completion", "bash").stdout
