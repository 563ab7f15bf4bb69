"""The text of a script, and the files that it takes in: ``source env.sh``, ``. ./.env``; what they set counts in the script."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.readers.encoding import encoding_of_file
from crashcart.readers.job.folder import HERE, folder_of
from crashcart.readers.job.words import Word, texts
from crashcart.regular_files import problem_with, read_whole

if TYPE_CHECKING:
    from crashcart.readers.job.shell import Command, Script, _Lexer

__all__ = ["take_in", "text_of"]

LIMIT = 5_000_000
DEEPEST = 3
# Not the login shell's own files: they belong to a machine, and set up programs rather than the job.
OF_THE_MACHINE = re.compile(r"(?:^|/)(?:etc|activate|conda\.sh|\.bashrc|\.bash_profile|\.profile|lmod)(?:$|/)")
# A variable that was set elsewhere and by its name holds the folder of the scripts.
OWN_FOLDER = re.compile(r"^\$\{?(?:SCRIPT|HERE|ROOT|PROJECT|DIR|BASE)\w*\}?(?=/)", re.IGNORECASE)


def text_of(path: str) -> str:
    """The text of a file with its line ends as they are; bytes that are no letters in its encoding survive as surrogates."""
    try:
        encoding = encoding_of_file(path)
        return read_whole(path, LIMIT).decode(encoding, "surrogateescape")
    except OSError as error:
        why = ", which is data rather than a script or a config" if error.errno == errno.EFBIG else ""
        raise CommandError(f"{problem_with(path, error)}{why}.") from None
    except (UnicodeError, LookupError):  # UTF-16, or a codec for something else than text
        raise CommandError(f"{path} is not {encoding.upper()} text, as it says.") from None


def take_in(lexer: _Lexer, command: Command) -> None:
    """Set what a file sets that the script reads at this point; ``set -a`` before it exports all of it."""
    path = _path(lexer.script, command)
    if path is None or len(lexer.above) >= DEEPEST or os.path.realpath(path) in lexer.above:
        return
    try:
        inner = type(lexer)(text_of(path), path)
    except CommandError:
        return
    inner.above = (*lexer.above, os.path.realpath(path))
    before = dict(lexer.expander.variables)
    inner.expander.variables.update(before)
    inner.read()
    for name, values in inner.expander.variables.items():
        if name in before and texts(before[name]) == texts(values):
            continue
        told = None if values is None or (lexer.depth and name in before) else [_elsewhere(one, command) for one in values]
        lexer.expander.variables[name] = told
        if told and (name in inner.script.exported or _exports_all(lexer.script)):
            lexer.script.exported[name] = told[0]


def _elsewhere(word: Word, command: Command) -> Word:
    """A word of another file: it counts, and is not edited through this one."""
    return Word(word.text, command.words[0].span, word.known, (-1,) * len(word.text))


def _path(script: Script, command: Command) -> str | None:
    """The file, where it is told and there: from the folder that the script went to, from here, beside the script."""
    own = os.path.dirname(script.file) or "."
    word = command.words[1]
    name = OWN_FOLDER.sub(own, HERE.sub(own, word.text))
    if not script.file or "$" in name or not (word.known or name != word.text) or OF_THE_MACHINE.search(name):
        return None
    at, _ = folder_of(script, command)
    tries = dict.fromkeys([os.path.join(at, name), name, os.path.join(own, name)])
    return next((os.path.normpath(one) for one in tries if os.path.isfile(one)), None)


def _exports_all(script: Script) -> bool:
    """Whether ``set -a`` is on at the end of what was read."""
    on = False
    for one in script.commands:
        words = [word.text for word in one.words]
        if words[:1] == ["set"]:
            on = bool({"-a", "allexport"} & set(words)) or (on and not {"+a", "allexport"} & set(words))
    return on
