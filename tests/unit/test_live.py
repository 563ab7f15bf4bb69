"""A job that was started without us, looked at from outside: what /proc tells of it, and that it is left alone."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from crashcart.errors import CommandError
from crashcart.readers.live import look_at

WAITING = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('ready', flush=True); s.recv(1)"


def test_who_waits_for_whom() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", WAITING, str(port)], stdout=subprocess.PIPE) as job:
            connection, _ = server.accept()
            assert job.stdout is not None
            assert job.stdout.readline() == b"ready\n"
            (note,) = look_at(job.pid).notes
            assert f"127.0.0.1:{port}" in note.quote
            assert "asleep" in note.quote
            assert job.poll() is None
            connection.close()


def test_a_process_that_is_not_there_gets_a_sentence() -> None:
    with pytest.raises(CommandError, match="no process 4194304"):
        look_at(4194304)


def test_the_verb_answers_for_a_running_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as job:
        command = [sys.executable, "-m", "crashcart", "why", "--json", "--pid", str(job.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout)["subject"] == f"process {job.pid}"
        job.communicate(b"\n")
