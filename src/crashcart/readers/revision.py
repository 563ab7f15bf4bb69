"""Another version of the same project: a folder, or a revision of the git repository unpacked into a folder of its own.

``git archive`` only writes the stored files: no hook, no filter and no code of the project runs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tarfile
import tempfile
import threading
import time
from typing import TYPE_CHECKING

from crashcart import git
from crashcart.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["working_in"]

_SECONDS = 120
_LARGEST = 8 << 30


@contextlib.contextmanager
def working_in(version: str) -> Iterator[None]:
    """Work for a while in another version of the folder that we are in."""
    here = os.getcwd()
    with contextlib.ExitStack() as stack:
        folder = version
        if not os.path.isdir(version):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="crashcart-"))
            inner = _unpack(version, folder)
            folder = os.path.join(folder, inner)
        try:
            os.chdir(folder)
            yield
        finally:
            os.chdir(here)


def _unpack(revision: str, folder: str) -> str:
    """Unpack a revision; where in it we are."""
    inner = _git("rev-parse", "--show-prefix", what=revision).decode().strip()
    top = _git("rev-parse", "--show-toplevel", what=revision).decode().strip()
    found = _git("-C", top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", what=revision)
    _extract(git.command("-C", top, "archive", "--format=tar", found.decode().strip()), folder)
    if not os.path.isdir(os.path.join(folder, inner)):
        raise CommandError(f"{revision} has no folder {inner}.")
    return inner


def _extract(command: list[str], folder: str) -> None:
    """Unpack the archive that a command writes, as it comes: a repository may hold more than fits into memory."""
    until, left = time.monotonic() + _SECONDS, _LARGEST
    with subprocess.Popen(  # noqa: S603 - read only
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=git.environment()
    ) as process:
        watch = threading.Timer(_SECONDS, process.kill)
        watch.start()
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    left -= member.size
                    if left < 0 or time.monotonic() > until:
                        raise CommandError("that version is too large to compare with.")
                    if member.isfile() and not member.name.startswith("/") and ".." not in member.name.split("/"):
                        archive.extract(member, folder)
        except (tarfile.TarError, EOFError, OSError) as problem:
            raise CommandError(f"that version could not be unpacked: {problem}.") from None
        finally:
            watch.cancel()
            process.kill()


def _git(*words: str, what: str = "") -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - read only
            git.command(*words), capture_output=True, timeout=git.SECONDS, check=False, env=git.environment()
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise CommandError(f"git could not be run: {problem}.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise CommandError(
            f"{what or 'git'} is neither a folder nor a git revision here. {said[-1] if said else ''}".strip()
        )
    return done.stdout
