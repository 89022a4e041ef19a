"""Login shells of every kind: the far side is installed through them, or a sentence says why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.machines.far_site import STORE

from grassq.errors import BadInput
from grassq.machines.far_end import FarEnd
from grassq.machines.far_greeting import FarUnusable
from grassq.machines.transport import LocalTransport

#: All that the far side needs, but one.
NEEDED = "sh cat head dd tr mv ln rm mkdir mkfifo date sleep ls sort du wc"


def a_shell(folder: Path, text: str) -> str:
    """Make a login shell that first does what an rc file says, and return its path."""
    file = folder / "shell"
    file.write_text(f'#!/bin/bash\n{text}\n[ $# = 0 ] || exec /bin/bash "$@"\n')
    file.chmod(0o755)
    return str(file)


def opened(home: Path, *shell: str, **env: str) -> FarEnd:
    far = FarEnd(LocalTransport(str(home), shell=shell, env=env), STORE)
    try:
        far.open()
    finally:
        far.close()
    return far


@pytest.mark.parametrize("shell", ["csh", "tcsh", "fish", "rbash", "zsh"])
def test_the_script_runs_under_every_login_shell(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    for _ in ("cold", "warm"):
        assert opened(tmp_path, shell).greeting.home == bytes(tmp_path / ".grass-ssh" / STORE)


@pytest.mark.parametrize(
    "rc",
    [
        "printf 'welcome without a newline'",
        "head -c 900000 /dev/zero",
        "yes noise | head -c 900000",
        "echo to stderr >&2; yes | head -c 900000 >&2",
        "cd /",
        "set -e; export LC_ALL=de_DE.UTF-8 POSIXLY_CORRECT=1 CDPATH=/ IFS=x",
    ],
)
def test_what_an_rc_file_does_is_no_obstacle(tmp_path: Path, rc: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shell = a_shell(tmp_path, rc)
    for _ in ("cold", "warm"):
        assert opened(home, shell).greeting.user_home == bytes(home)


@pytest.mark.parametrize(
    ("rc", "words"),
    [
        ("echo 'This account is currently not available.'; exit 1", "This account is currently not available."),
        ("echo 'This service allows sftp connections only.' >&2; exit 1", "sftp connections only"),
        ("printf 'red \\033[31m\\a text'; exit 0", "red"),
        ("yes", "prints without end"),
        ("exit 0", "does not run `sh`"),
    ],
)
def test_a_login_shell_that_runs_nothing_is_said_in_a_sentence(tmp_path: Path, rc: str, words: str) -> None:
    with pytest.raises(FarUnusable) as error:
        opened(tmp_path, a_shell(tmp_path, rc))
    assert words in str(error.value) and str(error.value).isprintable()


def test_a_home_that_cannot_be_used_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FarUnusable, match=r"the home directory '/no/such/home' cannot be entered"):
        opened(tmp_path, "sh", HOME="/no/such/home")
    (tmp_path / ".grass-ssh").write_text("a file is in the way")
    with pytest.raises(FarUnusable, match=r"\.grass-ssh"):
        opened(tmp_path, "sh")


def test_a_machine_without_a_needed_program_says_which(tmp_path: Path) -> None:
    bins = tmp_path / "bin"
    bins.mkdir()
    for name in NEEDED.split():
        (bins / name).symlink_to(str(shutil.which(name)))
    with pytest.raises(FarUnusable, match="lacks awk"):
        opened(tmp_path, "/bin/sh", PATH=str(bins))


def test_another_folder_may_be_named_and_nothing_else_of_the_shell(tmp_path: Path) -> None:
    far = FarEnd(LocalTransport(str(tmp_path)), STORE, folder=f"{tmp_path}/else/where")
    assert far.open().home == bytes(tmp_path / "else/where" / STORE)
    far.close()
    for folder in ("a b", "$HOME", "x;y", "", "-x", "`x`", "ö"):
        with pytest.raises(BadInput):
            FarEnd(LocalTransport(str(tmp_path)), STORE, folder=folder)
    for store in ("../x", "a/b", "", ".x"):
        with pytest.raises(BadInput):
            FarEnd(LocalTransport(str(tmp_path)), store)
