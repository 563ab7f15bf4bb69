r"""The shell ends or changes the command before the program sees it.

What happens: only a part of the options arrives. The rest is run as commands of their own (``--lr: command not found``),
often after a training that ran to its end with defaults, or the program complains of an argument nobody typed.

Why: ``--x=8 \   # note``: a backslash followed by a blank quotes the blank, and the command ends there; ``bash -n`` accepts
it. A comment or an empty line between continued lines does the same. Windows line ends make every backslash quote a carriage
return. An unset variable passes '' or lets the next option slide into its place. A dash pasted from a web page is no hyphen.

How it shows: an option before ``command not found`` (exit 127), ``$'\r'``, ``syntax error near unexpected token``,
``invalid int value: ''``, ``unrecognized arguments: —-config``, a usage message first and ``command not found`` after it.

What to do: nothing may follow a backslash; put notes above the command; ``dos2unix``; ``set -euo pipefail`` and an array for
arguments, in which comments are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.causes.config._sections import squeezed
from crashcart.model import Edit, Experiment, Fix, Sign, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The shell cut or changed the launch command"
BROKEN = "script.broken_continuation"
NOT_FOUND = (
    "command not found", ": not found", "未找到命令", "commande introuvable", "kommando nicht gefunden",
    "befehl nicht gefunden", "orden no encontrada", "no se encontró la orden", "コマンドが見つかりません",
    "команда не найдена", "comando não encontrado",
    "comando non trovato", "is not recognized as an internal or external command",
    "is not recognized as the name of a cmdlet",
)  # fmt: skip
ABSENT = (
    r"(?:(?:command )?not found|未找到命令|commande introuvable|(?:Kommando|Befehl) nicht gefunden|orden no encontrada|"
    r"no se encontró la orden|コマンドが見つかりません|команда не найдена|comando não encontrado|comando non trovato)"
)

phrases = (
    decisive(
        *NOT_FOUND,
        says="the shell ran an option as a separate command: the previous line was not continued",
        pattern=rf"(?:^|[\s'\"`])(?:-{{1,2}}[A-Za-z][\w.-]{{0,60}}(?:=\S{{0,100}})?|\+{{0,2}}[a-z_]\w*(?:\.\w+)+=\S{{0,100}}|"
                rf"[a-z_]\w*=\S{{0,100}})['\"]?\s?[:\uff1a]\s?{ABSENT}|"
        rf"command not found: -{{1,2}}\w|'-{{1,2}}\w[\w-]*' is not recognized as an|(?:^|[\s:])[#\\]: {ABSENT}",
        unless=r"\bld: |collect2|ld\.so",
    ),
    decisive(
        "$'\\r'", "\\r': no such file", "\\r\u2019: no such file", "^m: bad interpreter", "\\r: command not found", "\\r''",
        "['\\r'", "'\\r']", ": not found", "/bin/bash^m", "command not found",
        says="the script has Windows line endings: the shell reads the carriage return as part of each line",
        pattern=r"\\r['\u2019]|\^M\b|\\r: command|^: (?:command )?not found|^'?: (?:command )?not found\S*\.sh",
    ),
    decisive(
        "syntax error near unexpected token", "syntax error: end of file unexpected",
        "syntax error: unexpected end of file", 'syntax error: "', "syntax error: word unexpected",
        "unexpected eof while looking for matching", "illegal option -o pipefail", ": unbound variable",
        "unary operator expected", "parameter null or not set", ": bad substitution", "[[: not found", "ambiguous redirect",
        "syntax error: unterminated quoted string", "binary operator expected", "missing `]'",
        says="the shell could not read the script, or a variable in it is not set",
        pattern=r"(?:line |: |行 ?)\d+:|\.sh\b|bash:|\bsh:|zsh:", unless=r"Traceback|\.py\"",
    ),
    decisive("unrecognized arguments:", says="the shell passed something that is not an argument",
             pattern=r"unrecognized arguments:(?:\s{0,20}$|.{0,200}[\u2013\u2014\u2212\u2010\u2011\u201c\u201d\u2018\u2019]|.{0,200}\\r|"
                     r"(?:.{0,200}\s)?[#\\](?:\s|$))"),
    strong("unrecognized arguments:", says="a second command was joined to the first",
           pattern=r"unrecognized arguments:.{0,200}(?:\s-m(?:\s|$)|\bpython3?\b|\btorchrun\b|\baccelerate launch|\.yamlpython)"),
    decisive("invalid int value: ''", "invalid float value: ''", "value: ''", says="a variable of the script is empty",
             pattern=r"argument -\S+: invalid \w+ value: ''"),
    decisive("unsupported nproc_per_node value", "invalid literal for int() with base 10: '-", "value: '--",
             says="an option slid into the place of a value: the value before it is missing",
             pattern=r"nproc_per_node value: \S|(?:base 10|value): '-{1,2}[a-z]"),
    strong("torchrun: not found", "torchrun: command not found", "accelerate: command not found",
           "deepspeed: command not found",
           "python: command not found", "accelerate: not found", "deepspeed: not found",
           says="the shell that runs the script cannot find the launcher: a different shell, user or environment"),
    weak("conda: command not found", "module: command not found", "source: not found", "expected one argument",
         says="a line of the script had no effect, or a variable is empty", fatal=False),
)  # fmt: skip


def in_config(case: Case) -> Iterator[Sign]:
    """A continuation in the launch script that does not continue; before the start also what else the shell will change."""
    broken = case.facts.get(BROKEN)
    if broken is None and not case.before:
        return
    for fact in case.all(BROKEN) or ([broken] if broken is not None else []):
        if "CR" not in str(fact.value):
            says = "the command ends at this line: something follows the backslash, or stands between the continued lines"
            yield Sign("decisive", says, (fact.evidence,))
        elif case.before and not any("\\" in str(one.value) for one in case.all(BROKEN)):
            says = "the script has Windows line endings: bash adds a carriage return to the last word of each line"
            yield Sign("strong", says, (fact.evidence,))
        else:
            yield Sign(
                "decisive", "the script has Windows line endings: each backslash escapes a carriage return", (fact.evidence,)
            )
    if case.before:
        yield from _foreseen(case)


def _foreseen(case: Case) -> Iterator[Sign]:
    """Variables that nobody sets, and a pipe that hides how the training ended."""
    for fact in case.all("script.open_quote"):
        says = "a quote that starts in this line is never closed: the shell reads the rest of the script as one string and fails"
        yield Sign("decisive", says, (fact.evidence,))
    names = case.facts.get("script.names")
    for fact in case.all("script.unset_variable") if names is not None else ():
        if names is not None and fact.value in names.value:
            continue  # set in another place of the script
        close = next((name for name in names.value if squeezed(name) == squeezed(str(fact.value))), None) if names else None
        if close is not None:
            says = f"${fact.value} is not set (unless it is set outside the script); {close} is"
            yield Sign("strong", says, (fact.evidence,))
        else:
            yield Sign("weak", f"the script does not set ${fact.value}", (fact.evidence,), fatal=False)
    hidden = case.facts.get("launch.exit_hidden")
    if hidden is not None:
        says = "the pipe hides the training's exit code, so the script continues after a failure (use `set -o pipefail`)"
        yield Sign("weak", says, (hidden.evidence,), fatal=False)


CARRIAGE = "bash keeps the carriage return of a Windows line ending as part of the last word"


def fix(case: Case) -> Iterator[Fix]:
    """Take out what breaks the continuation, where the script is at hand."""
    broken, mending = case.facts.get(BROKEN), case.facts.get("script.mending")
    if broken is not None and broken.span is not None:
        why = "the backslash must be the last character of its line"
        pieces = mending.value if mending is not None else [(broken.span.start, broken.span.end)]
        edits = tuple(Edit(Span(broken.span.file, start, end, broken.span.line), "") for start, end in pieces)
        ends = "CR" in str(broken.value) and "\\" not in str(broken.value)
        title = "Use Unix line endings" if ends else "Remove what follows the backslash"
        yield Fix(title, "exact", CARRIAGE if ends else why, edits=edits)
        return
    if case.all("script.open_quote"):
        yield Fix(
            "Close the quote",
            "by-hand",
            "`bash -n SCRIPT` names the line where parsing failed; the open quote is before it",
        )
        return
    yield Fix(
        "Repair the command",
        "by-hand",
        "put nothing after a backslash, and no comment or empty line between continued lines; use `sed -i 's/\\r$//' script.sh` for "
        "Windows line "
        'ends, `set -u` to find unset variables; or ARGS=( --lr 1e-4  # notes are fine here\n ... ) and "${ARGS[@]}"',
    )


experiment = Experiment(
    title="Put `printf '%s\\n'` before the command, or `bash -x script.sh`, and compare the arguments with the file",
    start_from="the beginning",
    stop_after="the argument list is printed",
    confirms="an option of the script is missing from the list, or has a space or carriage return in it",
    refutes="every option arrives as written: then the program rejects it for another reason",
)
