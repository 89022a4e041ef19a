"""Starting the daemon: what it inherits, and what it says."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from grassq.errors import BadInput, Refused, Unreachable
from grassq.net.autostart import start


def interpreter(directory: Path, script: str) -> str:
    """A stand-in for Python that runs `script` with the words and descriptors the daemon would get."""
    program = directory / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_ready_is_heard_and_the_log_is_private(home: Path, tmp_path: Path) -> None:
    start(str(home), python=interpreter(tmp_path, 'echo "$@" >&2; echo ready >&3'))
    log = home / "daemon.log"
    assert log.read_text() == "-P -m grassq daemon --detach --ready-fd 3\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_nothing_the_shell_left_open_is_inherited(home: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    start(str(home), python=interpreter(tmp_path, "ls -l /proc/self/fd; cat; echo $GRASS_HOME; echo ready >&3"))
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
    text = (home / "daemon.log").read_text()
    assert "0 -> /dev/null" in text
    assert str(home) in text.splitlines()[-1]


def test_it_leads_a_session_of_its_own(home: Path, tmp_path: Path) -> None:
    start(str(home), python=interpreter(tmp_path, "echo $$; cut -d' ' -f6 /proc/$$/stat; echo ready >&3"))
    pid, session = (home / "daemon.log").read_text().split()
    assert pid == session


@pytest.mark.parametrize(("code", "kind"), [(2, BadInput), (5, Refused), (4, Unreachable)])
def test_its_own_sentence_and_exit_code_arrive(home: Path, tmp_path: Path, code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^the store is too new$"):
        start(str(home), python=interpreter(tmp_path, f"echo 'error {code} the store is too new' >&3"))


def test_a_daemon_that_dies_is_a_sentence_naming_its_log(home: Path, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"daemon\.log"):
        start(str(home), python=interpreter(tmp_path, "exit 1"))


def test_a_daemon_that_says_nothing_is_given_up(home: Path, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="did not start within"):
        start(str(home), timeout_s=0.1, python=interpreter(tmp_path, "exec sleep 2"))
    os.wait()


def test_a_missing_interpreter_is_refused(home: Path) -> None:
    with pytest.raises(Refused, match="cannot start the daemon"):
        start(str(home), python="/nowhere/python")


def test_no_child_is_left_behind(home: Path, tmp_path: Path) -> None:
    before = psutil.Process().children()  # servers that other tests of this process share
    start(str(home), python=interpreter(tmp_path, "echo ready >&3"))
    assert psutil.Process().children() == before
