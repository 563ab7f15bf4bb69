"""The text of a script, and the files that it takes in: ``source env.sh``, ``. ./.env``; what they set counts in the script."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.readers.encoding import encoding_of_file
from crashcart.readers.job.folder import HERE, folder_of
from crashcart.regular_files import problem_with, read_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.job.evaluation import Command

__all__ = ["LARGEST_SCRIPT", "sourced_path", "text_of"]

LIMIT = 5_000_000
LARGEST_SCRIPT = 256 << 10  # characters
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


def sourced_path(file: str, commands: Sequence[Command], command: Command) -> str | None:
    """The file that a command takes in, where it is told and there: from the folder that the script went to, from here, beside it."""
    own = os.path.dirname(file) or "."
    word = command.words[1]
    name = OWN_FOLDER.sub(own, HERE.sub(own, word.text))
    if not file or "$" in name or not (word.known or name != word.text) or OF_THE_MACHINE.search(name):
        return None
    folder, _ = folder_of(file, commands)
    tries = dict.fromkeys([os.path.join(folder, name), name, os.path.join(own, name)])
    return next((os.path.normpath(path) for path in tries if os.path.isfile(path)), None)
