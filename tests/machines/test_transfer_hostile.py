"""A hostile machine that is asked for files: it writes nothing here that it was not asked for."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines.test_transfer_fetch import tree

from grassq.errors import GrassError
from grassq.files import tar_format
from grassq.files.tar_format import Header
from grassq.files.unpack import BadArchive
from grassq.machines.far_files import LARGE_BYTES, TransferFailed
from grassq.machines.file_fetch import discard, fetch
from grassq.machines.transport import LinkLost, LocalTransport


class Hostile:
    """Answers every command with bytes of its own, then with zeros for ever if `endless`."""

    def __init__(self, folder: Path, listed: Callable[[bytes], bytes], sent: Callable[[bytes], bytes]) -> None:
        self.transport = LocalTransport(str(folder))
        self._folder = folder
        self._listed = listed
        self._sent = sent
        self.endless = False

    def command(self, verb: str, *args: str) -> str:
        """As `FarEnd.command`."""
        marker, what, word = args
        is_list = what == "list"
        said = {"list": b"list\n", "archive": b"give\n", "pour": b"pour\n"}[what]
        answer = said + (self._listed if is_list else self._sent)(word.encode())
        (self._folder / what).write_bytes(b"\n" + marker.encode() + b"\n" + answer)
        script = self._folder / f"{what}.sh"
        first = "head -n 3" if what == "pour" else "cat"
        last = "cat /dev/zero" if self.endless and not is_list else ":"
        script.write_text(f"{first} >/dev/null\ncat {self._folder / what}\n{last}\n")
        return f"sh {script}"


#: A time as `stat` writes it.
TIME = b"2023-11-14 22:13:20.000000000 +0000"


def record(word: bytes, path: bytes, size: int = 3, mode: int = 0o100644) -> bytes:
    return b"%s %x 1700000000 %d 7 %s %s %s\n" % (word, mode, size, TIME, TIME, path)


def listing(*records: bytes, **given: int) -> Callable[[bytes], bytes]:
    return lambda word: b"".join(record(word, path, **given) for path in records) + word + b" end\n"


def archive(*headers: Header, code: bytes = b"0") -> Callable[[bytes], bytes]:
    def build(word: bytes) -> bytes:
        parts = [tar_format.encode(each) + b"x" * each.size + tar_format.padding(each.size) for each in headers]
        return b"".join(parts) + tar_format.END + (word + b" " + code).ljust(512)

    return build


def regular(name: bytes, size: int = 3) -> Header:
    return Header(name, tar_format.REGULAR, size)


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Path]:
    """A folder for the target, beside which nothing may appear."""
    (tmp_path / "hostile").mkdir()
    (tmp_path / "arena" / "target").mkdir(parents=True)
    (tmp_path / "arena" / "target" / "good").write_text("good")
    (tmp_path / "arena" / "secret").write_text("secret")
    yield tmp_path / "arena"
    assert set(os.listdir(tmp_path)) == {"hostile", "arena"}
    assert set(os.listdir(tmp_path / "arena")) == {"target", "secret"}
    assert (tmp_path / "arena" / "secret").read_text() == "secret"
    assert not Path("/tmp/grass-was-here").exists()


def attack(arena: Path, hostile: Hostile) -> list[bytes]:
    """Fetch from a hostile machine, and check that the target has what it had and what was fetched."""
    target = os.fsencode(arena / "target")
    came: list[bytes] = []
    try:
        came = fetch(hostile.transport, hostile, b"/root", (b".",), target)
    finally:
        discard(b"/root", target)
        new = {path for path, what in tree(target).items() if what != ("folder", b"")}
        assert new == {b"good", *came}
    return came


NAMES = [b"../evil", b"/tmp/grass-was-here", b"a/../../evil", b"a//b", b"a/./b", b"n" * 300, b"d/" * 200 + b"x"]


@pytest.mark.parametrize("name", [*NAMES, b"nul\0l"])
def test_a_list_with_a_name_that_leaves_is_refused(arena: Path, name: bytes) -> None:
    hostile = Hostile(arena.parent / "hostile", listing(b"./ok", b"./" + name), archive(regular(b"./ok")))
    with pytest.raises(GrassError):
        attack(arena, hostile)


@pytest.mark.parametrize("name", [*NAMES, b"good", b"./good", b"other"])
def test_an_archive_with_a_name_that_was_not_asked_for_is_refused(arena: Path, name: bytes) -> None:
    hostile = Hostile(arena.parent / "hostile", listing(b"./ok"), archive(regular(b"./ok"), regular(name)))
    with pytest.raises(BadArchive, match="not asked for"):
        attack(arena, hostile)
    assert (arena / "target" / "good").read_text() == "good"


def link(name: bytes, target: bytes, kind: bytes = tar_format.SYMLINK) -> Header:
    return Header(name, kind, link=target)


HOSTILE_ARCHIVES = {
    "twice": archive(regular(b"./ok"), regular(b"./ok")),
    "hard link to a secret": archive(link(b"./ok", b"../secret", tar_format.HARD_LINK)),
    "hard link to an absolute path": archive(link(b"./ok", b"/etc/passwd", tar_format.HARD_LINK)),
    "hard link to itself": archive(link(b"./ok", b"./ok", tar_format.HARD_LINK)),
    "symbolic link instead of a file": archive(link(b"./ok", b"/etc/passwd")),
    "device": archive(Header(b"./ok", b"3")),
    "fifo": archive(Header(b"./ok", b"6")),
    "folder": archive(Header(b"./ok", tar_format.FOLDER)),
    "longer than listed": archive(regular(b"./ok", 4)),
    "giant": archive(regular(b"./ok", 3)._replace(size=0)),
    "nothing": archive(),
    "tar failed and the file did not come": archive(code=b"2"),
    "no archive": lambda word: b"x" * 2048 + word.ljust(512),
    "too long a name": archive(regular(b"./" + b"n" * 20_000)),
    "wrong checksum": lambda word: b"\1" + tar_format.encode(regular(b"./ok"))[1:] + bytes(512) + word.ljust(512),
    "cut": lambda word: tar_format.encode(regular(b"./ok")) + b"x",
    "sparse giant": lambda word: sparse(b"./ok", 1 << 50) + word.ljust(512),
    "pax size": lambda word: pax(b"size", b"99999999999999999999") + word.ljust(512),
    "pax length": lambda word: odd_pax(b"9" * 10_000 + b" size=3\n") + word.ljust(512),
    "pax path": lambda word: pax(b"path", b"../evil") + tar_format.encode(regular(b"./ok")) + word.ljust(512),
    "negative size": lambda word: with_size(b"./ok", b"\xff" * 12) + word.ljust(512),
}


def pax(key: bytes, value: bytes) -> bytes:
    body = b"%s=%s\n" % (key, value)
    length = len(body) + 1 + len(str(len(body) + 3))
    return odd_pax(b"%d %s" % (length, body))


def odd_pax(data: bytes) -> bytes:
    return tar_format.encode(Header(b"pax", b"x", len(data))) + data + tar_format.padding(len(data))


def sparse(name: bytes, size: int) -> bytes:
    return with_size(name, b"\x80" + size.to_bytes(11, "big"), b"S")


def with_size(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    block = bytearray(tar_format.encode(Header(name, kind)))
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("name", HOSTILE_ARCHIVES)
def test_a_hostile_archive_leaves_nothing(arena: Path, name: str) -> None:
    hostile = Hostile(arena.parent / "hostile", listing(b"./ok"), HOSTILE_ARCHIVES[name])
    with pytest.raises((GrassError, LinkLost)):
        attack(arena, hostile)


def test_an_archive_without_end_is_refused(arena: Path) -> None:
    hostile = Hostile(arena.parent / "hostile", listing(b"./ok"), lambda word: b"")
    hostile.endless = True
    with pytest.raises(BadArchive, match="no end"):
        attack(arena, hostile)


def test_a_large_file_without_end_is_cut_at_its_size(arena: Path) -> None:
    hostile = Hostile(arena.parent / "hostile", listing(b"./ok", size=LARGE_BYTES), lambda word: b"")
    hostile.endless = True
    assert attack(arena, hostile) == [b"ok"]
    assert (arena / "target" / "ok").stat().st_size == LARGE_BYTES


def test_a_list_without_end_is_refused(arena: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grassq.machines.file_fetch.LIST_BYTES_MAX", 1 << 20)
    many = [b"./file %d" % number for number in range(50_000)]
    hostile = Hostile(arena.parent / "hostile", listing(*many), archive())
    with pytest.raises(TransferFailed, match="too many files"):
        attack(arena, hostile)


def test_a_million_files_are_refused(arena: Path) -> None:
    many = [b"./%d" % number for number in range(1_000_000)]
    hostile = Hostile(arena.parent / "hostile", listing(*many), archive())
    with pytest.raises(TransferFailed, match="name fewer"):
        attack(arena, hostile)


@pytest.mark.parametrize(
    "listed",
    [
        lambda word: b"garbage\n" + word + b" end\n",
        lambda word: record(word, b"./a") + record(word, b"./a") + word + b" end\n",
        lambda word: record(word, b"./a") + record(word, b"./a/b") + word + b" end\n",
        lambda word: record(word, b"./a", size=-1) + word + b" end\n",
        lambda word: record(word, b"./a", size=1 << 62) + word + b" end\n",
        lambda word: record(word, b"./a", mode=0o020644) + word + b" end\n",
        lambda word: b"%s zz 1 3 7 %s %s ./a\n" % (word, TIME, TIME) + word + b" end\n",
        lambda word: b"%s 81a4 1 %s 7 %s %s ./a\n" % (word, b"9" * 5000, TIME, TIME) + word + b" end\n",
        lambda word: b"%s 81a4 1 3 7 %s\n%s ./a\n" % (word, TIME, TIME) + word + b" end\n",
        lambda word: word,
    ],
)
def test_a_list_that_makes_no_sense_is_refused(arena: Path, listed: Callable[[bytes], bytes]) -> None:
    hostile = Hostile(arena.parent / "hostile", listed, archive(regular(b"./a")))
    with pytest.raises((GrassError, LinkLost)):
        attack(arena, hostile)


@pytest.mark.parametrize(
    ("target", "stays"),
    [(b"ok", True), (b"../secret", False), (b"/etc/passwd", False), (b"sub/../../secret", False), (b"", False)],
)
def test_a_link_comes_only_if_it_stays_inside(arena: Path, target: bytes, stays: bool) -> None:
    def listed(word: bytes) -> bytes:
        return record(word, b"./ok") + record(word, b"./l", mode=0o120777) + word + b" end\n"

    hostile = Hostile(arena.parent / "hostile", listed, archive(link(b"./l", target), regular(b"./ok")))
    assert (b"l" in attack(arena, hostile)) == stays


def test_two_links_that_leave_together_do_not_come(arena: Path) -> None:
    """`d/up -> ..` stays inside, and so seems `d/out -> up/../secret`: followed one after the other they leave."""

    def listed(word: bytes) -> bytes:
        links = b"".join(record(word, name, mode=0o120777) for name in (b"./d/e/up", b"./d/e/out"))
        folders = b"".join(record(word, name, mode=0o040755) for name in (b"./d", b"./d/e"))
        return folders + links + word + b" end\n"

    sent = archive(link(b"./d/e/up", b"../.."), link(b"./d/e/out", b"up/../secret"))
    assert attack(arena, Hostile(arena.parent / "hostile", listed, sent)) == [b"d/e/up"]


@pytest.mark.parametrize(("size", "comes"), [(4095, True), (4096, False), (16_000, False)])
def test_a_target_that_no_system_takes_is_refused(arena: Path, size: int, comes: bool) -> None:
    sent = archive(link(b"./l", b"x/" * (size // 2) + b"x" * (size % 2)))
    hostile = Hostile(arena.parent / "hostile", listing(b"./l", mode=0o120777), sent)
    if comes:
        assert attack(arena, hostile) == [b"l"]
    else:
        with pytest.raises(BadArchive, match="no system takes"):
            attack(arena, hostile)


def test_all_targets_together_have_a_bound(arena: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grassq.files.unpack.TARGETS_BYTES_MAX", 1 << 20)
    names = [b"./%d" % number for number in range(300)]
    sent = archive(*(link(name, b"x" * 4000) for name in names))
    hostile = Hostile(arena.parent / "hostile", listing(*names, mode=0o120777), sent)
    with pytest.raises(BadArchive, match="more than 1 MiB: fetch fewer"):
        attack(arena, hostile)


def test_links_of_two_fetches_do_not_leave_together(arena: Path) -> None:
    """`a -> b/../secret` leads nowhere while there is no `b`, and `b -> .` is harmless alone; so is a changed `b`."""
    came: list[bytes] = []
    for links in ({b"a": b"b/../secret"}, {b"b": b"d", b"c": b"b/../secret"}, {b"b": b".", b"d/e": b"../f/../secret"}):
        listed = [b"./" + path for path in links]
        sent = archive(*(link(b"./" + path, target) for path, target in links.items()))
        hostile = Hostile(arena.parent / "hostile", listing(*listed, mode=0o120777), sent)
        came += fetch(hostile.transport, hostile, b"/root", (b".",), os.fsencode(arena / "target"))
    assert came == [b"b", b"b"]


def test_a_link_may_go_through_folders_that_come_with_it(arena: Path) -> None:
    def listed(word: bytes) -> bytes:
        folder, inner = record(word, b"./empty", mode=0o040755), record(word, b"./d/e/l", mode=0o120777)
        return record(word, b"./f/ok") + folder + inner + word + b" end\n"

    sent = archive(regular(b"./f/ok"), link(b"./d/e/l", b"../../d/e/../../empty/../f/./ok"))
    assert attack(arena, Hostile(arena.parent / "hostile", listed, sent)) == [b"d/e/l", b"f/ok"]
    assert (arena / "target/d/e/l").read_text() == "xxx"


def test_a_file_below_a_link_makes_a_folder(arena: Path) -> None:
    def listed(word: bytes) -> bytes:
        return record(word, b"./d", mode=0o120777) + record(word, b"./d/evil") + word + b" end\n"

    hostile = Hostile(arena.parent / "hostile", listed, archive(link(b"./d", b".."), regular(b"./d/evil")))
    with pytest.raises(BadArchive, match="not asked for"):
        attack(arena, hostile)
    hostile = Hostile(arena.parent / "hostile", listed, archive(regular(b"./d/evil")))
    assert attack(arena, hostile) == [b"d/evil"]
    assert not (arena / "target" / "d").is_symlink()


def test_setuid_and_odd_times_do_not_come(arena: Path) -> None:
    def listed(word: bytes) -> bytes:
        return b"%s %x 99999999999999999 3 7 %s %s ./ok\n" % (word, 0o106777, TIME, TIME) + word + b" end\n"

    assert attack(arena, Hostile(arena.parent / "hostile", listed, archive(regular(b"./ok")))) == [b"ok"]
    assert not (arena / "target" / "ok").stat().st_mode & 0o7000


def test_control_characters_of_names_do_not_reach_a_terminal(arena: Path) -> None:
    hostile = Hostile(arena.parent / "hostile", listing(b"./\x1b[2J\x07/../x"), archive())
    with pytest.raises(GrassError) as caught:
        attack(arena, hostile)
    assert str(caught.value).isprintable()


def test_garbage_of_any_kind_leaves_nothing(arena: Path) -> None:
    rng = random.Random(12)
    whole = archive(regular(b"./ok"), regular(b"./also"))(b"w" * 32)
    for _ in range(60):
        at = rng.randrange(len(whole) - 512)
        damaged = whole[:at] + struct.pack("Q", rng.getrandbits(64)) + whole[at + 8 :]
        hostile = Hostile(
            arena.parent / "hostile",
            listing(b"./ok", b"./also"),
            lambda word, damaged=damaged: damaged[:-512] + (word + b" 0").ljust(512),  # type: ignore[misc]
        )
        try:
            assert attack(arena, hostile) == [b"also", b"ok"]
            for name in ("also", "ok"):
                (arena / "target" / name).unlink()
        except (GrassError, LinkLost):
            pass
