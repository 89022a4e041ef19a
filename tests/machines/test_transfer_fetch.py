"""Files come back whole, or not at all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.small_disk import mounted, needs_root
from tests.machines.far_site import SHELLS, FarSite
from tests.machines.lines import CountingTransport, CutTransport

from grassq.errors import Refused
from grassq.machines.far_files import LARGE_BYTES, TransferFailed
from grassq.machines.file_fetch import discard, fetch
from grassq.machines.transport import LinkLost

ODD = b"-odd 'name\"\n$(x) \xff \xf0\x9f\x98\x80 \\n %41 *"
Tree = dict[bytes, bytes | tuple[str, bytes]]


@pytest.fixture
def side(far_site: FarSite) -> FarSite:
    return far_site


@pytest.fixture
def dash(tmp_path: Path) -> Iterator[FarSite]:
    """A far side where the shell does not matter."""
    found = FarSite(tmp_path, "dash")
    yield found
    found.close()


def made(folder: Path) -> bytes:
    """A folder with everything that a job may leave."""
    (folder / "models" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "models" / "a.pt").write_bytes(bytes(range(256)) * 50)
    (folder / "models" / "deep" / "b.pt").write_text("b")
    (folder / "models" / "note.txt").write_text("note")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "same as run.sh").hardlink_to(folder / "run.sh")
    (folder / ("long" * 60)).write_text("a long name")
    (folder / "nothing").touch()
    (folder / "latest").symlink_to("models/a.pt")
    (folder / os.fsdecode(ODD)).mkdir()
    (folder / os.fsdecode(ODD) / os.fsdecode(ODD)).write_bytes(ODD)
    return os.fsencode(folder)


def tree(folder: Path | bytes) -> Tree:
    """What is below a folder: contents of files, targets of links, and folders."""
    found: Tree = {}
    top = os.fsencode(folder)
    for at, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(at, name)
            below = os.path.relpath(path, top)
            if os.path.islink(path):
                found[below] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[below] = ("folder", b"")
            else:
                found[below] = Path(os.fsdecode(path)).read_bytes()
    return found


def test_everything_comes_back_as_it_is(side: FarSite, tmp_path: Path) -> None:
    root = made(side.home / "job")
    into = tmp_path / "here" / "results"
    came = fetch(side.transport, side.far, root, (b".",), os.fsencode(into))
    assert tree(into) == tree(root)
    assert came == sorted(path for path, what in tree(root).items() if what != ("folder", b""))
    assert (into / "run.sh").stat().st_mode & 0o100
    assert not (into / "nothing").stat().st_mode & 0o100
    assert (into / "same as run.sh").stat().st_nlink == 1
    assert int((into / "models" / "a.pt").stat().st_mtime) == int((side.home / "job/models/a.pt").stat().st_mtime)
    assert os.listdir(into.parent) == ["results"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((b"models/*.pt",), {b"models/a.pt"}),
        ((b"models/**/*.pt",), {b"models/a.pt", b"models/deep/b.pt"}),
        ((b"models/deep/",), {b"models/deep/b.pt"}),
        ((b"**/*.txt", b"nothing"), {b"models/note.txt", b"nothing"}),
        ((b"not there", b"nor/this/*"), set()),
    ],
)
def test_patterns_say_what_comes(
    dash: FarSite, tmp_path: Path, patterns: tuple[bytes, ...], expected: set[bytes]
) -> None:
    root = made(dash.home / "job")
    assert set(fetch(dash.transport, dash.far, root, patterns, os.fsencode(tmp_path / "here"))) == expected


def test_files_replace_those_of_the_same_name_and_nothing_else(side: FarSite, tmp_path: Path) -> None:
    root = made(side.home / "job")
    into = tmp_path / "here"
    (into / "models").mkdir(parents=True)
    (into / "models" / "a.pt").write_text("old")
    (into / "models" / "mine").write_text("mine")
    (into / "run.sh").symlink_to("models/mine")
    fetch(side.transport, side.far, root, (b".",), os.fsencode(into))
    assert tree(into) == {**tree(root), b"models/mine": b"mine"}


def test_a_link_of_our_own_is_not_followed(dash: FarSite, tmp_path: Path) -> None:
    root = made(dash.home / "job")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "models").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="link"):
        fetch(dash.transport, dash.far, root, (b".",), os.fsencode(tmp_path / "here"))
    assert not os.listdir(tmp_path / "elsewhere")


def test_a_folder_that_is_in_the_way_is_a_sentence(dash: FarSite, tmp_path: Path) -> None:
    root = made(dash.home / "job")
    (tmp_path / "here" / "run.sh" / "mine").mkdir(parents=True)
    with pytest.raises(Refused, match=r"run\.sh"):
        fetch(dash.transport, dash.far, root, (b"run.sh",), os.fsencode(tmp_path / "here"))
    assert (tmp_path / "here" / "run.sh" / "mine").exists()


def test_a_folder_that_is_a_link_to_another_disk_comes_when_it_is_named(side: FarSite, tmp_path: Path) -> None:
    (side.home / "scratch").mkdir()
    (side.home / "scratch" / "x").write_text("x")
    (side.home / "job").mkdir()
    (side.home / "job" / "out").symlink_to(side.home / "scratch")
    root = os.fsencode(side.home / "job")
    notes: list[str] = []
    assert fetch(side.transport, side.far, root, (b"out/*",), os.fsencode(tmp_path / "named")) == [b"out/x"]
    assert fetch(side.transport, side.far, root, (b".",), os.fsencode(tmp_path / "all"), note=notes.append) == []
    assert "can lead out of the folder" in notes[0]


def test_a_folder_that_another_job_makes_meanwhile_gets_the_files_too(dash: FarSite, tmp_path: Path) -> None:
    root = made(dash.home / "job")
    into = tmp_path / "here"

    def others(done: int, total: int) -> None:
        into.mkdir(exist_ok=True)
        (into / "other").write_text("other")

    fetch(dash.transport, dash.far, root, (b".",), os.fsencode(into), others)
    assert tree(into) == {**tree(root), b"other": b"other"}


def test_a_second_fetch_of_the_same_files_is_put_off(dash: FarSite, tmp_path: Path) -> None:
    """After a reconnect the thread of the old connection may still wait for its lost machine."""
    root, into = made(dash.home / "job"), os.fsencode(tmp_path / "here")

    def again(done: int, total: int) -> None:
        with pytest.raises(LinkLost, match="already"):
            fetch(dash.transport, dash.far, root, (b".",), into)

    fetch(dash.transport, dash.far, root, (b".",), into, again)
    assert tree(into) == tree(root)


def test_a_root_that_is_gone_is_a_sentence(side: FarSite, tmp_path: Path) -> None:
    with pytest.raises(TransferFailed, match="no such folder"):
        fetch(side.transport, side.far, b"/not/there", (b".",), os.fsencode(tmp_path / "here"))
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_line_replaces_nothing_and_goes_on(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("grassq.machines.file_fetch.LARGE_BYTES", 100_000)
    into = tmp_path / "here"
    if seed % 2:
        into.mkdir()
        (into / "run.sh").write_text("old")
    with closing(FarSite(tmp_path, SHELLS[seed % len(SHELLS)])) as side:
        root = made(side.home / "job")
        for number in range(20):
            (side.home / "job" / f"file {number}").write_bytes(rng.randbytes(rng.randrange(20_000)))
        for number in range(2):
            (side.home / "job" / f"large {number}").write_bytes(rng.randbytes(rng.randrange(100_000, 600_000)))
        for _ in range(200):
            line = CutTransport(side.transport, 1 + rng.randrange(rng.choice((500, 1_000_000))))
            try:
                fetch(line, side.far, root, (b".",), os.fsencode(into))
                break
            except LinkLost:
                seen = {path: what for path, what in tree(into).items() if not path.startswith(b".grass-fetch-")}
                assert seen == ({b"run.sh": b"old"} if seed % 2 else {})
        assert tree(into) == tree(root)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".grass")]


def test_a_large_file_goes_on_where_the_line_was_cut(side: FarSite, tmp_path: Path) -> None:
    size = LARGE_BYTES + 10
    (side.home / "job").mkdir()
    (side.home / "job" / "large").write_bytes(os.urandom(1 << 20) * (size >> 20) + bytes(10))
    root, into = os.fsencode(side.home / "job"), os.fsencode(tmp_path / "here")
    with pytest.raises(LinkLost):
        fetch(CutTransport(side.transport, size // 2), side.far, root, (b".",), into)
    line = CountingTransport(side.transport)
    fetch(line, side.far, root, (b".",), into)
    assert line.received < size // 2 + (4 << 20)
    assert tree(into) == tree(root)


def test_a_large_file_that_was_changed_between_two_tries_begins_again(dash: FarSite, tmp_path: Path) -> None:
    large = dash.home / "job" / "large"
    large.parent.mkdir()
    large.write_bytes(b"a" * LARGE_BYTES)
    root, into = os.fsencode(large.parent), os.fsencode(tmp_path / "here")
    with pytest.raises(LinkLost):
        fetch(CutTransport(dash.transport, 1 << 20), dash.far, root, (b".",), into)
    large.write_bytes(b"b" * LARGE_BYTES)
    fetch(dash.transport, dash.far, root, (b".",), into)
    assert tree(into) == tree(root)


def test_what_a_cut_fetch_has_left_can_be_discarded(dash: FarSite, tmp_path: Path) -> None:
    root, into = made(dash.home / "job"), os.fsencode(tmp_path / "here" / "results")
    with pytest.raises(LinkLost):
        fetch(CutTransport(dash.transport, 5000), dash.far, root, (b".",), into)
    assert os.listdir(tmp_path / "here")
    discard(root, into)
    assert not os.listdir(tmp_path / "here")


@needs_root
def test_a_full_disk_here_is_said_before_anything_comes(dash: FarSite, tmp_path: Path) -> None:
    (dash.home / "job").mkdir()
    (dash.home / "job" / "data").write_bytes(bytes(8 << 20))
    with mounted(tmp_path / "small", "size=4m") as small:
        line = CountingTransport(dash.transport)
        with pytest.raises(TransferFailed, match=r"needs 8 MiB, has 4 MiB free in .*/small/results"):
            fetch(line, dash.far, os.fsencode(dash.home / "job"), (b".",), os.fsencode(small / "results"))
        assert line.received < 1000


def test_too_much_is_refused(dash: FarSite, tmp_path: Path) -> None:
    root = made(dash.home / "job")
    with pytest.raises(TransferFailed, match="Name fewer"):
        fetch(dash.transport, dash.far, root, (b".",), os.fsencode(tmp_path / "here"), most_bytes=100)
    assert not (tmp_path / "here").exists()
