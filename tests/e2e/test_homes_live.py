"""Homes that cannot be used, and users who are not the owner."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.e2e.small_disk import needs_root
from tests.e2e.world import BIN, Done, Grass
from tests.other_user import NOBODY, answer_to, as_user, unix_socket

IS_ROOT = os.geteuid() == 0


def modestly(grass: Grass, *words: str) -> Done:
    """Run `grass WORDS` as somebody to whom file modes apply, which root is not."""
    limits = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if IS_ROOT else ()
    return grass.program(*limits, BIN / "grass", *words)


def refused_modestly(grass: Grass, *words: str) -> str:
    done = modestly(grass, *words)
    assert (done.code, done.out, done.err.count("\n")) == (5, "", 1), done
    return done.err


@needs_root
def test_a_read_only_disk_is_one_line(grass: Grass, disk: Path) -> None:
    grass.enqueue("true")
    grass.ended(1)
    grass.ok("stop")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert str(grass.home) in grass.refuses(5, "enqueue", "true")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert grass.states() == ["succeeded"]


@needs_root
def test_a_home_on_a_network_file_system_is_refused(grass: Grass, tmp_path: Path) -> None:
    """A dead sshfs mount, which is all that is needed to be one."""
    point = tmp_path / "far"
    point.mkdir()
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("no /dev/fuse here")
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    mounted = libc.mount(b"me@far:/", os.fsencode(point), b"fuse.sshfs", 0, options)
    os.close(fuse)
    if mounted != 0:
        pytest.skip(f"fuse cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        for home in (point, point / "below"):
            line = grass.refuses(5, "enqueue", "true", env={"GRASS_HOME": str(home)})
            assert "fuse.sshfs" in line and "local disk" in line
    finally:
        subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.mark.skipif(IS_ROOT and shutil.which("setpriv") is None, reason="root needs setpriv to respect modes")
@pytest.mark.parametrize("mode", [0o000, 0o500, 0o300])
def test_a_home_that_cannot_be_read_is_one_line(grass: Grass, mode: int) -> None:
    grass.home.mkdir()
    grass.home.chmod(mode)
    for words in (("enqueue", "true"), ("show",), ("start",)):
        assert str(grass.home) in refused_modestly(grass, *words)
    grass.home.chmod(0o700)
    assert list(grass.home.iterdir()) == []


@pytest.mark.skipif(IS_ROOT and shutil.which("setpriv") is None, reason="root needs setpriv to respect modes")
def test_a_store_that_cannot_be_read_is_one_line(grass: Grass) -> None:
    grass.enqueue("true")
    grass.ended(1)
    grass.ok("stop")
    (grass.home / "store.db").chmod(0)
    assert "store" in refused_modestly(grass, "enqueue", "true")
    (grass.home / "store.db").chmod(0o600)
    assert grass.states() == ["succeeded"]


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be looked at" * 100])
def test_a_damaged_store_is_never_written_over(grass: Grass, content: bytes) -> None:
    """An empty file is a new store; anything else is left as it is, with one line."""
    grass.home.mkdir(mode=0o700)
    (grass.home / "store.db").write_bytes(content)
    done = grass("enqueue", "true")
    if content:
        assert (done.code, done.out, done.err.count("\n")) == (5, "", 1), done
        assert (grass.home / "store.db").read_bytes() == content
    else:
        assert done.code == 0, done


def test_a_home_in_the_way_of_a_file_is_usage(grass: Grass) -> None:
    grass.home.write_text("a file")
    assert "not a directory" in grass.refuses(2, "enqueue", "true")
    assert "not a directory" in grass.refuses(2, "enqueue", "true", env={"GRASS_HOME": str(grass.home / "below")})
    grass.home.unlink()


def test_a_home_where_others_may_write_is_refused(grass: Grass) -> None:
    grass.home.mkdir()
    grass.home.chmod(0o777)
    (grass.home / "something").touch()
    assert "chmod" in grass.refuses(5, "enqueue", "true")


@needs_root
def test_a_home_of_somebody_else_is_refused(grass: Grass) -> None:
    grass.home.mkdir()
    os.chown(grass.home, NOBODY, NOBODY)
    for words in (("enqueue", "true"), ("show",), ("stop",)):
        assert f"uid {NOBODY}" in grass.refuses(5, *words)


def as_nobody_ask(home: Path) -> str:
    """What the daemon of `home` answers to another user: the HTTP status, or the error of connecting."""

    def ask() -> bytes:
        try:
            return answer_to(unix_socket("grass.sock"), b"GET /v1/show HTTP/1.0\r\nHost: x\r\n\r\n").split()[1]
        except OSError as error:
            return type(error).__name__.encode()

    return as_user(NOBODY, ask, cwd=home).decode()


@needs_root
def test_another_user_cannot_reach_the_daemon(grass: Grass) -> None:
    """Not through the directory's mode, and not if the modes were opened by mistake."""
    grass.run("echo", "secret")
    assert as_nobody_ask(grass.home) == "PermissionError"
    grass.home.chmod(0o711)
    assert as_nobody_ask(grass.home) == "PermissionError"
    (grass.home / "grass.sock").chmod(0o777)
    assert as_nobody_ask(grass.home) == "403"
    grass.home.chmod(0o700)


def test_nothing_listens_on_the_network(grass: Grass) -> None:
    """Promise 8: the daemon holds no internet socket at all."""
    grass.run("true")
    sockets = {path.readlink().name for path in Path(f"/proc/{grass.daemon_pid()}/fd").iterdir()}
    inodes = {name.removeprefix("socket:[").removesuffix("]") for name in sockets if name.startswith("socket:[")}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        path = Path(f"/proc/net/{table}")
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        assert not [line for line in lines if line.split()[9] in inodes]
