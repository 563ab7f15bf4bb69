"""Scripts made of what launch scripts are made of, in combinations that nobody wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VARIABLES = ["A", "B", "C", "LR", "N", "OUT"]
ARRAYS = ["L", "ARGS"]
TEXTS = ["a", "x=1", "--lr", "1e-4", "8", "3", "runs/a.yaml", "a-b_c", "0", "train.py", "abab", "A", "B"]
PATTERNS = ["*", "a*", "*a", "?", "*/", ".*", ".yaml", "b", "[ab]", "[0-9]*", "-*-", "x", "'*'", '"a"', "$B"]
OPERATORS = ["+", "-", "*", "/", "%", "**", "<<", ">>", "&", "|", "^", "&&", "||", "<", ">", "==", "!=", "<=", ">="]


class Writer:
    """Draws one script; ``tag`` numbers its commands, so that each can be found again."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw, self.tag, self.depth, self.functions, self.loops, self.counters = draw, 0, 0, 0, 0, 0

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def name(self) -> str:
        return str(self.pick(VARIABLES))

    def text(self) -> str:
        return str(self.pick(TEXTS))

    # Words.

    def quoted(self) -> str:
        return str(
            self.pick(
                [
                    lambda: f"'{self.text()} $A'",
                    lambda: f'"{self.text()} {self.inner()}"',
                    lambda: f'"{self.inner()}"',
                    lambda: '""',
                    lambda: "''",
                    lambda: f"$'{self.text()}\\t\\x41\\''",
                    lambda: f'"\\$A \\"{self.text()}\\" \\\\ \\d"',
                    lambda: f'"  {self.inner()}  {self.inner()} "',
                    lambda: f'$"{self.text()}"',
                    lambda: "a\\ b",
                    lambda: "\\ ",
                    lambda: "\\$A\\'",
                    lambda: f'"{self.text()}\\\n{self.text()}"',
                ]
            )()
        )

    def inner(self) -> str:
        """What expands in quotes too."""
        return str(
            self.pick(
                [self.parameter, self.parameter, self.parameter, self.arithmetic, self.output, self.array, self.text]
            )()
        )

    def default(self) -> str:
        if self.depth > 3:
            return self.text()
        return str(self.pick([self.text, lambda: f"{self.text()} {self.text()}", self.inner, self.inner, lambda: f'"{self.text()}"',
                              lambda: f"'{self.text()}'", lambda: "", lambda: f'"{self.inner()}"', lambda: f"x {self.inner()}"])())  # fmt: skip

    def parameter(self) -> str:
        self.depth += 1
        name = self.name() if self.number(0, 5) else str(self.number(1, 3))
        form = str(self.pick([
            "$N", "${N}", "${N:-D}", "${N-D}", "${N:+D}", "${N+D}", "${N:=D}", "${#N}", "${N%P}", "${N%%P}", "${N#P}", "${N##P}", "${N/P/T}",
            "${N//P/T}", "${N/#P/T}", "${N/%P/T}", "${N:I}", "${N:I:J}", "${N: -J}", "${N^^}", "${N,,}", "${N^}", "${!N}", "$#", "$N", "$N",
            "${N:I:-1}", "${N//P}",
        ]))  # fmt: skip
        if name.isdecimal():
            form = form.replace(":=", ":-").replace("${!", "${")
        parts = {
            "N": name,
            "D": "",
            "P": str(self.pick(PATTERNS)),
            "T": self.text(),
            "I": str(self.number(0, 3)),
            "J": str(self.number(1, 3)),
        }
        if "D" in form:
            parts["D"] = self.default()
        self.depth -= 1
        return "".join(parts.get(char, char) for char in form)

    def array(self) -> str:
        form = str(self.pick(["${L[@]}", "${L[*]}", "${#L[@]}", "${L[I]}", "${L[-1]}", "${L[@]:I}", "${L[@]:I:J}", "$@", "$*", "$L",
                              "${L[@]%P}", "${@:J}", "${L[N]}", "${L[@]:-T}"]))  # fmt: skip
        parts = {
            "L": str(self.pick(ARRAYS)),
            "I": str(self.number(0, 3)),
            "J": str(self.number(1, 2)),
            "P": str(self.pick(PATTERNS)),
            "T": "t",
        }
        return "".join(parts.get(char, char) for char in form)

    def expression(self, depth: int = 0) -> str:
        leaf = [
            lambda: str(self.number(0, 9)),
            self.name,
            lambda: "0x1F",
            lambda: "017",
            lambda: "2#101",
            lambda: f"${self.name()}",
            lambda: f"${{{self.name()}:-4}}",
        ]
        if depth > 2 or not self.number(0, 2):
            return str(self.pick(leaf)())
        down = depth + 1
        return str(self.pick([
            lambda: f"{self.expression(down)} {self.pick(OPERATORS)} {self.expression(down)}",
            lambda: f"{self.expression(down)}{self.pick(['+', '*', '-'])}{self.expression(3)}",
            lambda: f"({self.expression(down)})", lambda: f"{self.pick(['-', '!', '~', '+'])} {self.expression(down)}",
            lambda: f"{self.expression(down)} ? {self.expression(down)} : {self.expression(down)}",
            lambda: f"{self.name()} {self.pick(['=', '+=', '-=', '*=', '/=', '|='])} {self.expression(down)}",
            lambda: f"{self.name()}{self.pick(['++', '--'])}", lambda: f"{self.pick(['++', '--'])}{self.name()}",
            lambda: f"{self.expression(down)} , {self.expression(down)}",
        ])())  # fmt: skip

    def arithmetic(self) -> str:
        return f"$(( {self.expression()} ))" if self.number(0, 4) else f"$(({self.expression()}))"

    def output(self) -> str:
        return str(self.pick([lambda: f"$(echo {self.simple()} {self.simple()})", lambda: f"$(seq {self.number(1, 2)} {self.number(2, 4)})",
                              lambda: "$(basename runs/a.yaml .yaml)", lambda: "$(dirname runs/a.yaml)", lambda: "$(type -t cd)",
                              lambda: f'$(basename "${self.name()}")'])())  # fmt: skip

    def simple(self) -> str:
        return str(self.pick([self.text, self.text, lambda: f"${self.name()}", lambda: f'"${self.name()}"'])())

    def braces(self) -> str:
        return str(self.pick([lambda: f"{{{self.number(1, 3)}..{self.number(1, 4)}}}", lambda: f"x{{{self.text()},{self.simple()}}}y", lambda: "{a..c}",
                              lambda: "{a}", lambda: "{}", lambda: "x{a,b{c,d}}", lambda: "{01..03}", lambda: "{a,'b c'}", lambda: "{,z}", lambda: "{1..5..2}"])())  # fmt: skip

    def word(self) -> str:
        kinds = [self.text, self.text, self.simple, self.quoted, self.quoted, self.parameter, lambda: f'"{self.parameter()}"', self.arithmetic,
                 self.array, lambda: f'"{self.array()}"', self.output, self.braces,
                 lambda: f"--{self.text()}={self.pick([self.parameter, self.quoted, self.arithmetic, self.text])()}",
                 lambda: f"{self.text()}{self.quoted()}{self.parameter()}", lambda: f"{self.text()}\\\n{self.text()}",
                 lambda: "'a'\\''b'", lambda: "a#b", lambda: "devices=[0,1]", lambda: "*.nothing"]  # fmt: skip
        return str(self.pick(kinds)())

    def words(self, most: int = 4) -> str:
        blank = str(self.pick([" ", " ", "  ", " \\\n  "]))
        return blank.join(self.word() for _ in range(self.number(0, most)))

    # Statements.

    def command(self) -> str:
        self.tag += 1
        start = f"{self.pick(['python', 'torchrun', 'srun', 'nothing-installed'])} t{self.tag}"
        words = self.words()
        form = str(self.pick(["S W", "S W", "S W", "S W", "V=T S W", "S W >/dev/null 2>&1", "S >/dev/null W", "S W <<< T", "S W &", "S W | :", "! S W",
                              "S W # W", "command S W", "S W <<EOF\ntext $A\nEOF", "S W \\\n  T", "time S W"]))  # fmt: skip
        if form.startswith("time") or ("# W" in form and "\n" in words):
            form = "S W"
        if form.endswith("&"):
            form += "\nwait"
        parts = {"S": start, "W": words, "T": self.text(), "V": self.name()}
        return (
            "".join(parts.get(char, char) if char in "SWTV" else char for char in form)
            if form != "S W <<EOF\ntext $A\nEOF"
            else f"{start} {words} <<EOF\ntext $A\nEOF"
        )

    def assignment(self) -> str:
        name, array = self.name(), str(self.pick(ARRAYS))
        return str(self.pick([
            lambda: f"{name}={self.word()}", lambda: f"{name}={self.text()}", lambda: f"{name}={self.quoted()}", lambda: f"{name}={self.number(0, 12)}",
            lambda: f"{name}+={self.text()}", lambda: f'{name}="${name} {self.text()}"', lambda: f"{array}=({self.words()})",
            lambda: f"{array}+=({self.words(2)})", lambda: f"{array}[{self.number(0, 3)}]={self.simple()}", lambda: f"export {name}={self.simple()}",
            lambda: f"{name}={self.text()} {self.name()}=${name}", lambda: f": ${{{name}:={self.text()}}}", lambda: f"(( {self.expression()} ))",
            lambda: f'let "{name} = {self.expression()}"', lambda: f"unset {name}", lambda: f"set -- {self.words(3)}", lambda: "shift",
            lambda: f"read {name} <<< '{self.text()} {self.text()}'", lambda: f"printf -v {name} %s {self.text()}", lambda: f"{name}=${{{name}:-{self.default()}}}",
            lambda: f'eval "{name}={self.text()}"', lambda: f"declare -A M=([k]={self.text()}); {name}=${{M[k]}}", lambda: f"{name}=$(type -t cd)",
            lambda: f"eval '{name}=${self.name()}'", lambda: f"{name}=", lambda: f"export {name}", lambda: f"readonly R{self.number(1, 9)}={self.text()}",
            lambda: f'[ -z "${name}" ] && {name}={self.text()}',
        ])())  # fmt: skip

    def condition(self) -> str:
        return str(self.pick([
            lambda: f'[ "${self.name()}" = {self.text()} ]', lambda: f"[ {self.simple()} == {self.simple()} ]", lambda: f'[ -z "${self.name()}" ]',
            lambda: f'[ -n "${self.name()}" ]', lambda: f"[[ ${self.name()} == {self.pick(PATTERNS)} ]]", lambda: f"[[ -z ${self.name()} && {self.text()} != $A ]]",
            lambda: f"[ {self.number(0, 4)} -lt {self.number(0, 4)} ]", lambda: f"(( {self.expression()} ))", lambda: f"[[ ${self.name()} -gt 2 || -n $B ]]",
            lambda: f"test {self.simple()} != {self.simple()}", lambda: "[ -e /dev/null ]", lambda: "true", lambda: "false", lambda: "! true",
            lambda: f"[ $# -gt {self.number(0, 2)} ]", lambda: f"[ ! {self.simple()} = {self.simple()} ]", lambda: "[ -d /nowhere ]",
            lambda: f'[[ ! ( "${self.name()}" != {self.text()} ) ]]', lambda: f"[ {self.simple()} ]",
        ])())  # fmt: skip

    def block(self, most: int = 3) -> str:
        self.depth += 1
        text = "\n".join(self.statement() for _ in range(self.number(1, most)))
        self.depth -= 1
        return text

    def compound(self) -> str:
        return str(self.pick([self.if_, self.if_, self.case, self.for_, self.c_for, self.while_, self.function,
                              lambda: f"( {self.block()}\n)", lambda: f"{{ {self.block()}\n}}", self.list_])())  # fmt: skip

    def if_(self) -> str:
        text = f"if {self.condition()}; then\n{self.block()}\n"
        if not self.number(0, 2):
            text += f"elif {self.condition()}; then\n{self.block(2)}\n"
        if self.number(0, 1):
            text += f"else\n{self.block(2)}\n"
        return text + "fi"

    def case(self) -> str:
        items = "".join(
            f"  {self.pick(PATTERNS[:-1])}{self.pick(['', '|' + self.text()])}) {self.block(1)}\n;;\n"
            for _ in range(self.number(1, 3))
        )
        return f"case {self.simple()} in\n{items}esac"

    def looped(self) -> str:
        self.loops += 1
        text = self.block(2)
        if not self.number(0, 3):
            text += f"\n{self.condition()} && {self.pick(['break', 'continue'])}\n{self.command()}"
        self.loops -= 1
        return text

    def for_(self) -> str:
        return f"for {self.name()} in {self.words(3)}; do\n{self.looped()}\ndone"

    def c_for(self) -> str:
        return f"for ((i = 0; i < {self.number(0, 3)}; i++)); do\n{self.looped()}\ndone"

    def while_(self) -> str:
        self.counters += 1
        counter = f"k{self.counters}"
        limit = self.number(0, 3)
        return f"{counter}=0\nwhile [ ${counter} -lt {limit} ]; do\n{counter}=$(({counter}+1))\n{self.looped()}\ndone"

    def function(self) -> str:
        self.functions += 1
        name, local = f"f{self.functions}", self.name()
        body = f"local {local}={self.simple()}\n" if self.number(0, 1) else ""
        body += self.block(2)
        if not self.number(0, 3):
            body += f"\n{self.condition()} && return\n{self.command()}"
        calls = "\n".join(f"{name} {self.words(2)}" for _ in range(self.number(1, 2)))
        return f"{name}() {{\n{body}\n}}\n{calls}"

    def list_(self) -> str:
        return f"{self.condition()} {self.pick(['&&', '||'])} {self.command_alone()}"

    def command_alone(self) -> str:
        self.tag += 1
        return f"python t{self.tag} {self.words(2)}"

    def statement(self) -> str:
        kinds = [self.assignment, self.assignment, self.command, self.command]
        return str(self.pick([*kinds, self.compound] if self.depth < 3 else kinds)())


@st.composite
def scripts(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """A whole script."""
    writer = Writer(draw)
    head = writer.pick(["", "", "", "set -e\n", "set -u\n", "#!/bin/bash\nset -x\n", "set -- a 'b c' 3\n", "IFS=,\n"])
    return str(head) + "\n".join(writer.statement() for _ in range(writer.number(3, 9))) + "\n" + writer.command() + "\n"
