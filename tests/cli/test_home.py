"""Where state lives."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from grassq import home
from grassq.cli.fast import find_target
from grassq.errors import BadInput, Refused


def mounts(directory: Path, *lines: str) -> str:
    table = directory / "mountinfo"
    table.write_text("".join(f"{line}\n" for line in ("22 1 254:0 / / rw,relatime - ext4 /dev/vda rw", *lines)))
    return str(table)


def mount(point: Path | str, kind: str) -> str:
    return f"40 22 0:50 / {point} rw shared:5 master:1 - {kind} server:/export rw"


def test_grass_home_wins_over_everything(tmp_path: Path) -> None:
    chosen = {"GRASS_HOME": str(tmp_path / "a"), "XDG_STATE_HOME": "/elsewhere", "HOME": "/root"}
    assert home.find(chosen, mountinfo=mounts(tmp_path)) == str(tmp_path / "a")


def test_a_relative_grass_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert home.find({"GRASS_HOME": "x/../y"}, mountinfo=mounts(tmp_path)) == str(tmp_path / "y")


def test_the_state_directory_is_next(tmp_path: Path) -> None:
    chosen = {"XDG_STATE_HOME": str(tmp_path), "HOME": "/root"}
    assert home.find(chosen, mountinfo=mounts(tmp_path)) == f"{tmp_path}/grass"


@pytest.mark.parametrize("state", ["", "relative/path"])
def test_without_a_usable_one_it_is_under_the_home_directory(tmp_path: Path, state: str) -> None:
    chosen = {"GRASS_HOME": "", "XDG_STATE_HOME": state, "HOME": str(tmp_path)}
    assert home.find(chosen, mountinfo=mounts(tmp_path)) == f"{tmp_path}/.local/state/grass"


def test_a_home_directory_that_does_not_exist_is_never_made(tmp_path: Path) -> None:
    """A wrong HOME, as in a container, would give another queue than the user's."""
    with pytest.raises(BadInput, match=r"HOME=.*nowhere is not a directory; set HOME or GRASS_HOME"):
        home.find({"HOME": str(tmp_path / "nowhere")}, mountinfo=mounts(tmp_path))


def test_a_command_says_which_home_it_has_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    account = pwd.struct_passwd(("me", "x", os.getuid(), os.getgid(), "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: account)
    for name in ("GRASS_HOME", "XDG_STATE_HOME", "HOME", "GRASS_BROKER"):
        monkeypatch.delenv(name, raising=False)
    guessed = f"{tmp_path}/.local/state/grass"
    assert find_target(None) == (guessed, None)
    assert capfd.readouterr().err == f"grass: HOME is not set; the queue is in {guessed} (GRASS_HOME names another)\n"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_target(None) == (guessed, None)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre", "gpfs", "fuse.sshfs", "ceph", "9p", "beegfs"])
def test_a_default_on_a_network_file_system_is_replaced(tmp_path: Path, kind: str) -> None:
    table = mounts(tmp_path, mount(tmp_path, kind))
    assert home.find({"HOME": str(tmp_path)}, mountinfo=table) == f"/var/tmp/grass-{os.getuid()}"


def test_an_explicit_home_on_a_network_file_system_is_refused(tmp_path: Path) -> None:
    table = mounts(tmp_path, mount(tmp_path, "nfs4"))
    with pytest.raises(Refused, match="network file system"):
        home.find({"GRASS_HOME": str(tmp_path / "home")}, mountinfo=table)


def test_the_longest_mount_point_decides(tmp_path: Path) -> None:
    table = mounts(tmp_path, mount(tmp_path, "nfs"), mount(tmp_path / "local", "xfs"), mount(f"{tmp_path}/loc", "nfs"))
    assert home.file_system(str(tmp_path / "local" / "deep"), mountinfo=table) == "xfs"
    assert home.file_system(str(tmp_path / "other"), mountinfo=table) == "nfs"


def test_of_two_mounts_on_one_point_the_later_counts(tmp_path: Path) -> None:
    table = mounts(tmp_path, mount(tmp_path, "autofs"), mount(tmp_path, "nfs"))
    assert home.file_system(str(tmp_path), mountinfo=table) == "nfs"


def test_escapes_in_the_mount_table_are_decoded(tmp_path: Path) -> None:
    table = mounts(tmp_path, mount(f"{tmp_path}/my\\040disk\\134x", "nfs"))
    assert home.file_system(f"{tmp_path}/my disk\\x/home", mountinfo=table) == "nfs"


def test_a_link_into_a_network_file_system_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "net")
    table = mounts(tmp_path, mount(tmp_path / "net", "nfs"))
    assert home.file_system(str(tmp_path / "link" / "grass"), mountinfo=table) == "nfs"


def test_the_mount_table_is_not_read_where_a_socket_exists(tmp_path: Path) -> None:
    (tmp_path / "grass.sock").touch()
    table = mounts(tmp_path, mount(tmp_path, "nfs"))
    assert home.find({"GRASS_HOME": str(tmp_path)}, mountinfo=table) == str(tmp_path)


def test_an_unreadable_mount_table_is_no_obstacle(tmp_path: Path) -> None:
    chosen = {"GRASS_HOME": str(tmp_path)}
    assert home.find(chosen, mountinfo=str(tmp_path / "missing")) == str(tmp_path)


def test_prepare_makes_it_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "grass"
    assert home.prepare(str(place)) is True
    assert place.stat().st_mode & 0o777 == 0o700
    assert home.prepare(str(place)) is False


def test_an_empty_directory_is_closed_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    home.prepare(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_used_directory_that_others_may_write_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="others may write"):
        home.prepare(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o777


def test_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="not a directory"):
        home.prepare(str(tmp_path / "file"))
    with pytest.raises(BadInput, match="not a directory"):
        home.prepare(str(tmp_path / "file" / "below"))


def test_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(Refused, match="belongs to uid 12345"):
        home.prepare(str(tmp_path))


def test_a_parent_that_cannot_be_made_is_a_sentence() -> None:
    with pytest.raises(Refused, match="cannot make /proc/nowhere/grass"):
        home.prepare("/proc/nowhere/grass")
