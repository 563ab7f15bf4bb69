"""A checkpoint whose tensors have the size of a flag that one program of the script was given, and the program that loads it was not.

    python train.py --n_embd 40
    python sample.py --bars 4           size mismatch: torch.Size([10, 40]) from checkpoint, ... in current model is torch.Size([10, 32])

The flag is given to the second as well, where its own code knows the name.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Edit, Evidence, Span
from crashcart.pattern import Pattern
from crashcart.readers.job.script_files import text_of
from crashcart.readers.job.shell import lex
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Fact
    from crashcart.readers.job.evaluation import Command
    from crashcart.readers.remedies._scene import Scene

_SIZES = Pattern(
    r"torch\.Size\(\[([\d, ]{1,60})\]\) from checkpoint, the shape in current model is torch\.Size\(\[([\d, ]{1,60})\]\)"
)
_CAUSES = ("checkpoint/incompatible", "config/missing-or-wrong", "code/shape-or-dtype")


def look(scene: Scene) -> Iterator[Fact]:
    """The flag of another command of the same script whose value is the size of the checkpoint."""
    words = next((raised.words for raised in scene.raises if "size mismatch" in raised.words), "")
    saved = _saved_sizes(words)
    main = scene.main_command
    if not saved or not main:
        return
    for path in scene.scripts:
        try:
            commands = lex(text_of(path), path).commands
        except (CommandError, OSError, TypeError):
            continue
        loading = [command for command in commands if _is_same(command, main)]
        flags = {
            (flag, value)
            for command in commands
            if command not in loading
            for flag, value in _flags(command)
            if value in saved
            and _knows(scene, flag)
            and flag not in {word.text.partition("=")[0] for each in loading for word in each.words}
        }
        if len(loading) == 1 and len(flags) == 1:
            ((flag, value),) = flags
            last = loading[0].words[-1].span
            edits = [Edit(Span(path, last.end, last.end, last.line), f" {flag} {value}")]
            seen = Evidence("script", " ".join(word.text for word in loading[0].words), f"{path}:{last.line}")
            why = f"the checkpoint was made with {flag} {value}; without the flag the program builds a model of another size"
            yield from remedy(_CAUSES, f"Pass {flag} {value} to this program too", "exact", why, edits, seen)
            return


def _saved_sizes(words: str) -> set[str]:
    """The sizes that the checkpoint has where the model has others, as text; of a number that is made of others nothing is known."""
    sizes: set[str] = set()
    for match in _SIZES.finditer(words):
        saved, current = (match[number].replace(" ", "").split(",") for number in (1, 2))
        if len(saved) == len(current):
            sizes.update(one for one, other in zip(saved, current, strict=True) if one != other)
    return sizes


def _is_same(command: Command, main: Sequence[str]) -> bool:
    """Whether a command of the script is the one that ran: its last words are."""
    words = [word.text for word in command.words]
    return len(words) > 1 and len(main) >= len(words) - 1 and words[1:] == [*main][-(len(words) - 1) :]


def _flags(command: Command) -> Iterator[tuple[str, str]]:
    words = command.words
    for word, following in zip(words, (*words[1:], None), strict=False):
        name, equals, value = word.text.partition("=")
        if name.startswith("--") and equals:
            yield name, value
        elif name.startswith("--") and following is not None:
            yield name, following.text


def _knows(scene: Scene, flag: str) -> bool:
    """Whether the program that died has the flag: its parser said so, or its code names it as a field or a flag."""
    if scene.case.program_flags:
        return flag in scene.case.program_flags
    name = flag.lstrip("-").replace("-", "_")
    return any(
        (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name)
        or (isinstance(node, ast.Constant) and node.value == flag)
        for source in scene.plan.program.sources
        for node in (*source.nodes(ast.AnnAssign), *source.nodes(ast.Constant))
    )
