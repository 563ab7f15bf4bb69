"""Scripts are read as bash reads them; where it matters, bash itself is asked."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import crashcart
from crashcart.errors import CommandError
from crashcart.readers.job import syntax
from crashcart.readers.job.mending import mend
from crashcart.readers.job.shell import lex, text_of

SEED_000 = """accelerate launch \\
    --num_processes 8 \\
    main.py \\
    --train_batch_size=16 \\
    --sample_batch_size=8 \\              # ⭐ 修改点1
    --gradient_accumulation_steps=2 \\
    --sample_period=1000 \\               # ⭐ 修改点2（可选）
    --report_to="wandb"
"""
SEED_003 = """python3 imitate_episodes.py \\
    --chunk_size 20 \\
    --batch_size 2 \\  # 进一步减小
    --num_epochs 2000
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=20)


def shown(script: str) -> str:
    commands = [command.words for command in lex(script).commands if command.words and command.words[0].text == "printf"]
    return "".join(f"<{word.text}>" for words in commands for word in words[2:])


@pytest.mark.parametrize(
    "script",
    [
        "P a\\\nb c\n",
        "P a \\   # note\n  b\n",
        "P a \\ # note\n  b\n",
        "P a \\\n\n  b\n",
        "P a \\\n # note \\\n  b\n",
        'A=1; A=2 P $A "x$A"\nB="a b"; P $B "$B"\n',
        'X=(a b "c d"); P "${X[@]}" ${X[1]} $X\n',
        'X=(a b); X+=(--c=1); P "${X[@]}"\nO="--a 1"; O+=" --b 2"; O="$O --c"; P $O\n',
        'X=(\n  a # note\n  b \\\n  "c d"\n)\nP pre"${X[@]}"post\n',
        'P a#b "#c" # d\n',
        "P $'a\\tb' 'x\\\ny' --x='1' --y=\"2\"3\n",
        'A=; P ${A:-x} ${A-x} ${A} "${A}" e ${A:+z} ${B:-"q r"} "${B:-q r}" ${B:-q r} ${C:-${D:-3}}\n',
        ": ${LR:=1e-4}; P $LR\n",
        "cat <<EOF >/dev/null\nP x \\\n y\nEOF\nP after\n",
        'A=1 B=$A; P "$B"\nexport C=5 D=\'x y\'; P $C "$D" --k=$C\n',
        "if [ 1 = 1 ]; then\n P y\nfi\nfor i in 1; do P $i; done\n",
        "P a && P b; P d 2>&1 | cat\nP x 2>/dev/null >/dev/stdout\n",
        'P "a\\"b\\$c\\d" \'q"r\' x\\ y é中\n',
        'A=a\\ b; P $A "$A"\nE=\' l m \'; P a$E"b" $E\n',
    ],
)
def test_words_are_those_that_bash_passes(script: str) -> None:
    script = script.replace("P ", 'printf "<%s>" @@ ')
    assert shown(script) == run(script).stdout


@pytest.mark.parametrize("script", [SEED_000, SEED_003])
def test_a_comment_after_the_backslash_is_reported_where_bash_breaks(script: str) -> None:
    stub = "accelerate() { :; }; python3() { :; }\n"
    assert run(stub + script).returncode == 127
    assert len(lex(script).broken) == script.count("#")
    whole = mend(script)
    assert run(stub + whole).returncode == 0
    assert lex(whole).broken == []
    assert "#" not in whole
    assert len(lex(whole).commands) == 1


def test_a_broken_continuation_says_its_text_line_and_place() -> None:
    fact = lex(SEED_003, "train.sh").broken[0]
    assert fact.name == "script.broken_continuation"
    assert fact.value == "\\  # 进一步减小"
    assert fact.evidence.where == "train.sh:3"
    assert fact.span is not None
    assert SEED_003[fact.span.start : fact.span.end] == "  # 进一步减小"


@pytest.mark.parametrize(
    "script",
    [
        "python t.py \\\n  --a 1 \\ \n  --b 2\n",
        "python t.py \\\n  --a 1 \\\n\n  --b 2\n",
        "python t.py \\\n  --a 1 \\\n  # note\n  --b 2\n",
        "python t.py \\\n  --a 1 \\\n  # --lr 1 \\\n\n  # two\n  --b 2\n",
        "python t.py \\\r\n  --a 1 \\\r\n  --b 2\r\n",
        "python \\ # which\n  t.py --a 1 --b 2\n",
        "python t.py \\\n  --a 1 \\  # note\n  # more\n  --b 2\n",
    ],
)
def test_every_kind_of_break_is_seen_and_mended(script: str) -> None:
    stub = 'python() { printf "%s " "$@"; }\n'
    assert lex(script).broken
    assert run(stub + mend(script)).stdout.split() == ["t.py", "--a", "1", "--b", "2"]


@pytest.mark.parametrize(
    "script",
    [
        "python t.py \\\n  --a 1 \\\n\necho done\n",
        "python t.py --a 1 # comment \\\n\n--not-a-continuation\n",
        "echo 'a \\   # inside quotes'\n",
        "cat <<EOF\na \\   # inside a document\nEOF\n",
        "python t.py \\\n  --a 1\n# a comment\n--b\n",
        'X="a \\ # b"\n',
    ],
)
def test_what_bash_accepts_is_not_reported(script: str) -> None:
    assert lex(script).broken == []


def test_a_dead_backslash_on_the_last_line_is_taken_off_not_joined_with_the_next_command() -> None:
    assert mend("python t.py \\\n  --a 1 \\  \necho done\n") == "python t.py \\\n  --a 1 \necho done\n"


def test_what_only_the_shell_knows_is_marked_unknown() -> None:
    script = lex('python t.py --n $(nproc) --x "$1" --lr $LR --b 4\n')
    unknown = [word.text for word in script.commands[0].words if not word.known]
    assert unknown == ["$(nproc)", "$1", "$LR"]
    assert list(script.unset) == ["LR"]


def test_a_value_of_which_a_part_is_unknown_is_split_into_the_words_around_it() -> None:
    """The way in which many launch scripts collect the arguments of torchrun."""
    script = 'G=$(nvidia-smi -L | wc -l)\nA="\n  --nproc $G \\\n  --nnodes ${N:-1} --x=$G"\ntorchrun $A train.py --lr 1\n'
    (words,) = (command.words for command in lex(script).commands if command.words and command.words[0].text == "torchrun")
    assert [(word.text, word.known) for word in words if word.known] == [
        (text, True) for text in ("torchrun", "--nproc", "--nnodes", "1", "train.py", "--lr", "1")
    ]
    assert [word.is_loose for word in words if not word.known] == [True, True]


def test_a_variable_set_in_both_branches_is_not_told() -> None:
    script = lex('if [ -n "$A" ]; then B=1; else B=2; fi\npython t.py $B\n')
    assert not script.commands[-1].words[-1].known
    script = lex('if [ -z "$B" ]; then B=1; fi\npython t.py $B\n')
    assert script.commands[-1].words[-1].text == "1"


def test_a_variable_used_once_is_edited_where_it_is_set_and_one_used_twice_where_it_is_used() -> None:
    text = "A=16\nB=32\npython t.py --x=$A --y=$B --z ${B}\n"
    words = lex(text, "t.sh").commands[-1].words
    places = [words[2].part(4), words[3].part(4), words[5].part(0)]
    assert [text[place.start : place.end] for place in places if place] == ["16", "$B", "${B}"]


def test_text_without_end_or_sense_is_read_to_the_end() -> None:
    for text in [
        "'",
        '"',
        "$(",
        "${",
        "`",
        "\\",
        "<<",
        "<<E",
        "a=(",
        "a=(;&|<>()",
        "((",
        "))",
        "&&||;;",
        "\r",
        "\x00",
        "for",
        "case x in",
    ]:
        assert lex(text).text == text


def test_a_file_that_cannot_be_read_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot be read: No such file or directory\.$"):
        text_of(str(tmp_path / "none.sh"))
    with pytest.raises(CommandError, match="is a folder, not a file"):
        text_of(str(tmp_path))
    (tmp_path / "big.sh").write_text("#" * 5_000_001)
    with pytest.raises(CommandError, match="larger than 5 MB"):
        text_of(str(tmp_path / "big.sh"))


def test_a_variable_that_doubles_itself_does_not_fill_the_memory() -> None:
    script = lex("A=aaaaaaaa\n" + "A=$A$A\n" * 60 + "python t.py $A\n")
    assert not script.commands[-1].words[-1].known


def test_a_file_of_variables_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("env.sh").write_text("export NGPU=8\nBATCH=16\nBATCH=$BATCH  # again\n. ./more.sh\nsource env.sh\n")
    Path("more.sh").write_text('LR="1e-4"\nif [ -n "$X" ]; then BATCH=32; fi\n')
    for line in ("source env.sh", ". ./env.sh", 'source "$(dirname "$0")/env.sh"', "source ${SCRIPT_DIR}/env.sh"):
        script = lex(f"{line}\ntorchrun --nproc_per_node=$NGPU t.py --lr $LR --bs $BATCH\n", "run.sh")
        words = script.commands[-1].words
        assert [word.text for word in words if word.known][:6] == [
            "torchrun",
            "--nproc_per_node=8",
            "t.py",
            "--lr",
            "1e-4",
            "--bs",
        ]
        assert not words[-1].known  # 16 or 32, as X is
        place = words[4].part(0)
        assert place is None or place.file == "run.sh"
        assert script.exported["NGPU"].text == "8"


@pytest.mark.parametrize(
    "line", ["source missing.sh", "source venv/bin/activate", "source $SOMEWHERE/env.sh", "source run.sh"]
)
def test_what_is_not_taken_in(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("venv/bin").mkdir(parents=True)
    for name in ("env.sh", "venv/bin/activate"):
        Path(name).write_text("NGPU=8\n")
    script = lex(f"{line}\ntorchrun --nproc_per_node=$NGPU t.py\n", "run.sh")
    assert not script.commands[-1].words[1].known


@pytest.mark.parametrize(
    "text",
    ["(" * 100_000, "$(" * 50_000, "a=(" * 40_000, ")" * 100_000, "<<E " * 20_000, "if " * 50_000, "{a,b}" * 60, "f() { f; f; }\nf\n",
     "python " + "{" * 3000, "for i in {1..9999}; do for j in {1..9999}; do python $i $j; done; done\n", "A='eval \"$A\"'\neval \"$A\"\n",
     "while true; do :; done\n", "if true; then\n" * 300 + "fi\n" * 300, "A=1\n" * 50_000, "echo $((" + "(" * 20_000, "a && " * 30_000 + "a"],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_a_script_that_nobody_wrote_ends_in_an_answer_or_a_sentence(text: str) -> None:
    start = time.thread_time()
    with suppress(CommandError):
        lex(text, "run.sh")
    assert time.thread_time() - start < 10


def test_without_the_grammar_a_script_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.sh"
    path.write_text("python train.py --lr 1\n")
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    syntax._parser.cache_clear()
    try:
        diagnosis = crashcart.check([str(path)])
    finally:
        syntax._parser.cache_clear()
    assert any("grammar cannot be loaded" in why for why in (str(each) for each in diagnosis.not_looked))
