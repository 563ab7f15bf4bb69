"""YAML whose numbers are numbers; the usual loader makes a string of `1e-4`."""

from __future__ import annotations

import datetime as dt
import enum
import io
import math
import pickle
import random
import subprocess
import sys
import warnings
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Optional, Union

import pytest
import torch
import yaml

from crashcart.train import YamlError, load_yaml

# What PyYAML gets wrong, and what is right; all else must be as PyYAML has it.
MENDED = {
    "1e-4": 1e-4,
    "0_17": 17,
    "0_8": 8,
    "5e-5": 5e-5,
    "2E-5": 2e-5,
    "-1e-4": -1e-4,
    "1e4": 1e4,
    "1E5": 1e5,
    "1e+4": 1e4,
    "1.0e4": 1e4,
    "1.5e3": 1.5e3,
    "+1e3": 1e3,
    "-.5": -0.5,
    "0o17": 15,
    "08": 8,
    "010": 10,
    "1:30": "1:30",
    "12:30:45.5": "12:30:45.5",
    "2024-13-45": "2024-13-45",
    "0x_": "0x_",
    "6e2158": "6e2158",
}
RIGHT_WORDS = """
1.0e-4 1.e-4 1.0e+4 .5 5. 0.5 +12 -7 0 00 -0 1_000 1_000.5 1__0 0x1F -0x1f 0b11 on off yes no On OFF y n Y N true False TRUE ~
null Null .inf -.inf +.INF .nan 2024-01-01 . .. - - _1 1e 1e- e5 1.2.3 1-2 +- 0o8 0xg 1,000 10% 1e5_0 a1 <no> 12:30pm v1.0 --- 12a
"""


def test_the_usual_loader_makes_a_string_of_the_learning_rate() -> None:
    usual = yaml.safe_load("lr: 1e-4\n")
    with pytest.raises(TypeError):
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=usual["lr"])
    ours = load_yaml("lr: 1e-4\n")
    assert ours == {"lr": 0.0001}
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=ours["lr"])


@pytest.mark.filterwarnings("ignore")
def test_what_was_wrong_is_right() -> None:
    for text, value in MENDED.items():
        assert same(load_yaml(f"x: {text}\n")["x"], value), text
        assert same(load_yaml(f"[{text}, '{text}', \"{text}\"]\n"), [value, text, text]), text


@pytest.mark.filterwarnings("ignore")
def test_what_was_right_is_the_same() -> None:
    for text in RIGHT_WORDS.split():
        if text in {"-", "---"}:
            continue
        assert same(load_yaml(f"x: {text}\n"), yaml.safe_load(f"x: {text}\n")), text


@pytest.mark.filterwarnings("ignore")
def test_random_words_are_as_in_pyyaml_or_are_numbers() -> None:
    """Where the two differ, Python's own float or int says that ours is the number that stands there, or it is no time of day."""
    draw = random.Random(5)
    differing = 0
    for _ in range(6000):
        word = "".join(draw.choices("0123456789eE+-._xob:naif", k=draw.randint(1, 7)))
        try:
            usual = yaml.safe_load(f"x: {word}\n")
            usual = usual["x"]
        except (yaml.YAMLError, ValueError, TypeError):
            continue
        ours = load_yaml(f"x: {word}\n")["x"]
        if same(ours, usual):
            continue
        differing += 1
        if ":" in word:
            assert ours == word
        elif isinstance(ours, str):
            assert word.lstrip("+-").startswith("0_") or "_" in word, word
        else:
            assert same(ours, int(word, 0) if "o" in word else int(word) if isinstance(ours, int) else float(word)), word
    assert differing > 50


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "a: 1\nb: [1, 2.5, x, [y, null]]\nc: {d: e, f: {}}\n",
        "base: &base {lr: 0.1, wd: 0.2}\nrun:\n  <<: *base\n  lr: 0.3\n",
        "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]\n",
        "a: |\n  two\n  lines\nb: >\n  one\n  line\n",
        "a: !!str 12\nb: !!int '12'\nc: !!float 1\nd: !!bool 'yes'\ne: !!null ''\nf: !!set {x, y}\ng: !!binary aGk=\n",
        "a: !!omap [x: 1, y: 2]\nb: 2001-12-14t21:59:43.10-05:00\n",
        "1: a\n2.5: b\nfalse: c\nnull: d\n",
        "a: 123456789012345678901234567890\nb: 0.1\nc: 3.141592653589793\n",
        "--- {a: 1}\n...\n",
        "\ufeffa: 1\r\nb:\r\n  - c\r\n",
        "[1, 2]",
    ],
)
def test_structure_is_as_in_pyyaml(text: str) -> None:
    assert same(load_yaml(text.encode()), yaml.safe_load(text.encode()))


def test_a_path_text_bytes_or_an_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("lr: 1e-4", encoding="utf-8")
    (tmp_path / "plain").write_text("lr: 2", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for source in (path, str(path), "train.yaml", b"lr: 1e-4", "lr: 1e-4", "{lr: 1e-4}", io.StringIO("lr: 1e-4")):
        assert load_yaml(source) == {"lr": 1e-4}
    with path.open("rb") as file:
        assert load_yaml(file) == {"lr": 1e-4}
    assert load_yaml("plain") == {"lr": 2}
    with pytest.raises(FileNotFoundError):
        load_yaml("missing.yaml")
    with pytest.raises(YamlError, match="there is no such file"):
        load_yaml("missing")
    with pytest.raises(TypeError, match="takes a path"):
        load_yaml(3)  # type: ignore[call-overload]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-8"])
def test_every_encoding_with_its_mark(encoding: str) -> None:
    assert load_yaml("名: 1e-4\n".encode(encoding)) == {"名": 1e-4}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("lr: 1\nwd: 2\nlr: 3\n", 3, 1, "the key 'lr' is given twice, first in line 1"),
        ("a: {b: 1, b: 2}", 1, 11, "given twice"),
        ("1: a\ntrue: b\n", 2, 1, "given twice"),
        ("<<: {a: 1}\n<<: {b: 2}\n", 2, 1, "given twice"),
        ("a:\n\tb: 1\n", 2, 1, "a tab is used for indentation"),
        ("a: 1\n--- \nb: 2\n", 2, 1, "second document"),
        ("a: !!python/object/apply:os.system [ls]", 1, 4, "is not known here"),
        ("a: !mine 3", 1, 4, "is not known here"),
        ("a: &x [1, *x]", 1, 4, "refers to itself"),
        ("a: 1\nb: *gone\n", 2, 4, "undefined alias"),
        ("a: 1\nb: \x01\n", 2, 4, "U+0001"),
        ("lr:1e-4", 1, 1, "a space is missing after the colon"),
        ("a: b: c", 1, 5, "a colon is not expected here"),
        ("? [1]\n: 2", 1, 3, "cannot be a key"),
        ("<<: 3", 1, 5, "<< merges mappings"),
        ("a: !!int x", 1, 4, "'x' is no int"),
        ("a: '" + "\n", 2, 1, "unexpected end"),
        ("a: " + "[" * 300_000, 1, 2003, "nested too deeply"),
    ],
)
def test_errors_have_their_place(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml(text)
    assert words in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"<text>:{line}:{column}: ")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own bytes


def test_a_wrong_byte_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nname: caf\xe9\n")
    with pytest.raises(YamlError, match=r"latin.yaml:2:10: the file is not UTF-8: byte 0xe9") as caught:
        load_yaml(path)
    assert caught.value.text.startswith("name: caf")


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]" for n in range(9)]
    with pytest.raises(YamlError, match="multiply"):
        load_yaml("\n".join(lines))
    many = "base: &base {a: 1, b: [1, 2]}\n" + "".join(f"run{n}: *base\n" for n in range(500))
    runs = load_yaml(many)
    assert runs["run7"] == runs["base"]
    runs["run7"]["b"].append(3)
    assert runs["run8"]["b"] == [1, 2]


def test_words_that_are_read_otherwise_than_they_look_are_told() -> None:
    with pytest.warns(UserWarning, match=r"<text>:2: None is a string in YAML; write null") as told:
        config = load_yaml("a: 1\nresume: None\nb: [nan, 010]\nc: 3e-4#rate\nquoted: 'None'\n")
    assert config["resume"] == config["quoted"] == "None"
    assert len(told) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_yaml("a: null\nb: ~\nc:\nd: 0\ne: 0.1\nf: name\ng: 'inf'\n")


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = 2


@dataclass
class Optim:
    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    name: Literal["adam", "sgd"] = "adam"


@dataclass
class Config:
    steps: int
    optim: Optim
    seed: Optional[int] = None  # noqa: UP045 - both spellings are in use
    mode: Mode = Mode.FAST
    tags: list[str] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    out: Path = Path("out")
    either: Union[int, str] = 0  # noqa: UP007 - both spellings are in use
    day: str = ""
    others: list[Optim] = field(default_factory=list)
    amp: bool = False
    sizes: tuple[int, ...] = ()
    made: int = field(init=False, default=3)
    only_once: InitVar[int] = 1
    shared: ClassVar[int] = 5
    anything: Any = None

    def __post_init__(self, only_once: int) -> None:
        if self.steps < only_once:
            raise ValueError("steps must be positive")


def test_a_dataclass_is_filled() -> None:
    text = """
    steps: 1e4
    optim: {lr: 1, betas: [0.9, 0.95], name: sgd}
    seed: null
    mode: EXACT
    tags: [a, b]
    limits: {x: 1}
    out: here/there
    either: text
    day: 2024-01-01
    others: [{lr: 1e-4}]
    sizes: [1, 2]
    only_once: 2
    anything: [1, {}]
    """
    config = load_yaml(text, schema=Config)
    assert isinstance(config, Config)
    assert config.optim == Optim(1.0, (0.9, 0.95), "sgd")
    assert isinstance(config.optim.lr, float)
    assert (config.steps, type(config.steps), config.mode, config.out) == (10000, int, Mode.EXACT, Path("here/there"))
    assert (config.either, config.day, config.others[0].lr, config.sizes) == ("text", "2024-01-01", 1e-4, (1, 2))
    assert config.limits == {"x": 1.0}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("steps: 1\noptim: {lr: 1}\nsteeps: 2\n", 3, "steeps: there is no such setting; did you mean steps?"),
        (
            "steps: 1\noptim:\n  learning: 1\n  lr: 2\n",
            3,
            "optim.learning: there is no such setting; known are lr, betas, name",
        ),
        ("steps: 1\noptim: {lr: '1e-4'}\n", 2, "optim.lr: a number is wanted, not the string '1e-4': take the quotes away"),
        ("steps: 1.5\noptim: {lr: 1}\n", 1, "steps: a whole number is wanted, not 1.5"),
        ("steps: true\noptim: {lr: 1}\n", 1, "steps: a whole number is wanted, not true"),
        ("optim: {lr: 1}\n", 1, "the setting steps is missing"),
        ("steps: 1\noptim:\n  name: sgd\n", 3, "optim: the setting lr is missing"),
        ("steps: 1\noptim: {lr: null}\n", 2, "optim.lr: a number is wanted, not null"),
        ("steps: 1\noptim: {lr: 1, name: adma}\n", 2, "did you mean adam?"),
        ("steps: 1\noptim: {lr: 1, betas: [1]}\n", 2, "optim.betas: a list of 2 is wanted, not of 1"),
        ("steps: 1\noptim: {lr: 1}\nmode: fsat\n", 3, "mode: one of 'FAST', 'EXACT' is wanted"),
        ("steps: 1\noptim: {lr: 1}\ntags: [a,\n  3]\n", 4, "tags.1: a string is wanted, not 3: put it in quotes"),
        ("steps: 1\noptim: {lr: 1}\ntags: a\n", 3, "tags: a list is wanted, not the string 'a'"),
        ("steps: 1\noptim: {lr: 1}\namp: 1\n", 3, "amp: true or false is wanted, not 1"),
        ("steps: 1\noptim: 3\n", 2, "optim: Optim is a mapping of settings, not 3"),
        ("steps: 1\noptim: {lr: 1}\nothers:\n- lr: 1\n- lr: x\n", 5, "others.1.lr: a number is wanted, not the string 'x'"),
        ("steps: 1\noptim: {lr: 1}\nseed: None\n", 3, "seed: a whole number is wanted, not the string 'None'; write null"),
        ("steps: 1\noptim: {lr: 1}\neither: 1.5\n", 3, "either: one of a whole number, a string is wanted, not 1.5"),
        ("steps: 1\noptim: {lr: 1}\nmade: 1\n", 3, "made: there is no such setting"),
        ("a: &a {lr: x}\nsteps: 1\noptim: {<<: *a}\n", 1, "optim.lr: a number is wanted"),
        ("steps: 0\noptim: {lr: 1}\n", 1, "Config refuses it: steps must be positive"),
        ("[1]", 1, "Config is a mapping of settings, not the list [1]"),
        ("", 1, "the setting steps is missing"),
    ],
)
def test_what_does_not_fit_a_dataclass_is_told_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml(text.encode(), schema=Config)
    told = str(caught.value).splitlines()
    assert any(words in one and one.startswith(f"<bytes>:{line}:") for one in told), caught.value


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml("optim: {lr: x}\nsteps: y\nfoo: 1\n", schema=Config)
    assert [line.split(" ")[0] for line in str(caught.value).splitlines() if line.startswith("<text>")] == [
        "<text>:1:13:",
        "<text>:2:8:",
        "<text>:3:1:",
    ]
    assert caught.value.line == 1
    with pytest.raises(YamlError, match=r"\n\.\.\. and \d+ more$"):
        load_yaml("".join(f"k{number}: 1\n" for number in range(11)), schema=Config)


def test_a_pydantic_model_is_filled() -> None:
    pydantic = pytest.importorskip("pydantic")

    inner: Any = pydantic.create_model("Inner", lr=(float, ...), name=(str, pydantic.Field("adam", alias="kind")))
    lists: Any = {"many": (list[inner], []), "by_name": (dict[str, inner], {})}
    outer = pydantic.create_model("Outer", steps=(int, ...), inner=(inner, ...), **lists)
    text = "steps: 10\ninner: {lr: 1e-4, kind: sgd}\nmany: [{lr: 1}]\nby_name: {a: {lr: 2}}\n"
    config = load_yaml(text, schema=outer)
    assert (config.inner.lr, config.inner.name, config.by_name["a"].lr) == (1e-4, "sgd", 2.0)
    with pytest.raises(YamlError) as caught:
        load_yaml("steps: x\ninner:\n  lr: 1\n  knid: 3\nmany:\n- {lr: 1}\n- {lr: 1, x: 2}\n", schema=outer)
    told = [line for line in str(caught.value).splitlines() if line.startswith("<text>")]
    assert [line.split(": ")[0] for line in told] == ["<text>:1:8", "<text>:4:3", "<text>:7:11"]
    assert "inner.knid: there is no such setting; did you mean kind?" in told[1]


def test_a_field_with_another_spelling_is_not_left_out_in_silence() -> None:
    """By its own name pydantic does not see it, and takes the default."""
    pydantic = pytest.importorskip("pydantic")
    strict: Any = pydantic.create_model("Strict", rate=(float, pydantic.Field(0.1, alias="lr")), epochs=(int, 3))
    assert strict.model_validate({"rate": 5.0}).rate == 0.1
    with pytest.raises(YamlError, match=r"rate: there is no such setting; known are lr, epochs"):
        load_yaml("rate: 5\n", schema=strict)
    both: Any = pydantic.create_model(
        "Both", __config__={"populate_by_name": True}, rate=(float, pydantic.Field(0.1, alias="lr"))
    )
    assert [load_yaml(text, schema=both).rate for text in ("rate: 5\n", "lr: 6\n")] == [5.0, 6.0]


def test_a_model_of_pydantic_1() -> None:
    pydantic = pytest.importorskip("pydantic.v1")

    inner = pydantic.create_model("Inner", lr=(float, ...))
    outer = pydantic.create_model("Outer", inner=(inner, ...))
    assert load_yaml("inner: {lr: 1e-4}", schema=outer).inner.lr == 1e-4
    with pytest.raises(YamlError, match=r"<text>:1:17: inner.x: there is no such setting"):
        load_yaml("inner: {lr: 1,  x: 3}", schema=outer)


def test_another_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="a dataclass or a pydantic model"):
        load_yaml("a: 1", schema=dict)


def test_an_instance_for_the_class_and_a_folder_for_a_file_are_refused(tmp_path: Path) -> None:
    @dataclass
    class Settings:
        lr: float = 0.1

    with pytest.raises(TypeError, match="the class Settings itself"):
        load_yaml("lr: 1e-4", schema=Settings())  # type: ignore[call-overload]
    with pytest.raises(IsADirectoryError):
        load_yaml(str(tmp_path))


def test_the_loader_written_in_python_gives_the_same() -> None:
    program = (
        "import yaml; yaml.__with_libyaml__ = False\n"
        "from crashcart.train import load_yaml\n"
        "print(load_yaml('a: 1e-4\\nb: &x {c: \\'1e-4\\', d: [yes, 0o17]}\\ne: {<<: *x, d: 3}\\n'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "{'a': 0.0001, 'b': {'c': '1e-4', 'd': [True, 15]}, 'e': {'c': '1e-4', 'd': 3}}"


def test_it_needs_no_torch() -> None:
    program = "import sys; from crashcart.train import load_yaml; load_yaml('a: 1'); print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
        == "False\n"
    )


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and (not isinstance(one, dt.datetime) or one.tzinfo == other.tzinfo)


@pytest.mark.parametrize("text", ["!!float " + "9" * 400, "9" * 400, "0x" + "f" * 5000])
def test_a_whole_number_that_no_float_can_hold_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    @dataclass
    class Rates:
        lr: float = 0.0

    path = tmp_path / "a.yaml"
    path.write_text(f"lr: {text}\n")
    with pytest.raises(YamlError, match=r"a\.yaml:1:5"):
        load_yaml(path, Rates)
