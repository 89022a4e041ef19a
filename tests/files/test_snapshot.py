"""A snapshot is what a folder was, also while others write to it; and it is quick where nothing has changed."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grassq.errors import BadInput, Refused
from grassq.files import snapshot as snapshots
from grassq.files.blobs import BlobStore, Stored
from grassq.files.manifest import PROGRAM, Manifest, parse
from grassq.files.materialise import materialise
from grassq.files.snapshot import snapshot

#: A time at which every file of a test is old.
LATER_NS = time.time_ns() + 3600 * 10**9
#: A user who owns nothing.
NOBODY = 65534
ODD = b"-odd 'name\"\n \xff \xf0\x9f\x98\x80"


class CountingStore(BlobStore):
    """Counts how often a file's content is stored."""

    stored = 0

    def put_chunks(self, chunks: Iterable[bytes]) -> Stored:
        self.stored += 1
        return super().put_chunks(chunks)


@pytest.fixture
def blobs(tmp_path: Path) -> CountingStore:
    return CountingStore(os.fsencode(tmp_path / "blobs"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def shot(root: Path, blobs: BlobStore, **given: object) -> Manifest:
    return snapshot(os.fsencode(root), blobs, now_ns=lambda: LATER_NS, **given)  # type: ignore[arg-type]


def paths(manifest: Manifest) -> set[bytes]:
    return {entry.path for entry in manifest.entries}


def test_a_folder_comes_out_as_it_went_in(root: Path, blobs: BlobStore, tmp_path: Path) -> None:
    (root / "empty" / "inside").mkdir(parents=True)
    (root / "run.sh").write_text("x")
    (root / "run.sh").chmod(0o755)
    (root / "text").write_text("x")
    (root / "link").symlink_to("empty/inside")
    (root / os.fsdecode(ODD)).write_bytes(ODD)
    manifest = shot(root, blobs)
    materialise(manifest, blobs, os.fsencode(tmp_path / "copy"))
    assert shot(tmp_path / "copy", blobs).id == manifest.id
    assert (tmp_path / "copy" / "run.sh").stat().st_nlink == 1
    assert [entry.path for entry in manifest.entries if entry.kind == PROGRAM] == [b"run.sh"]


def test_the_manifest_is_kept_with_the_contents(root: Path, blobs: BlobStore) -> None:
    (root / "a").write_text("a")
    manifest = shot(root, blobs)
    assert blobs.manifest(manifest.id).entries == manifest.entries
    assert parse(manifest.text).id == manifest.id


def test_what_cannot_be_sent_is_left_out_with_a_note(root: Path, blobs: BlobStore) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    (root / "away").symlink_to("/etc/passwd")
    (root / "up").symlink_to("../other")
    (root / "stays").symlink_to("not there")
    notes: list[str] = []
    assert paths(shot(root, blobs, note=notes.append)) == {b"stays"}
    assert sorted(note.split(" is not sent")[0] for note in notes) == ["'away'", "'fifo'", "'socket'", "'up'"]


def test_notes_have_a_bound(root: Path, blobs: BlobStore) -> None:
    for number in range(50):
        os.mkfifo(root / str(number))
    notes: list[str] = []
    shot(root, blobs, note=notes.append)
    assert len(notes) == 21
    assert notes[-1] == "30 more are not sent"


def test_ignored_folders_are_not_even_read(root: Path, blobs: BlobStore) -> None:
    (root / ".grassignore").write_text("data/\n*.log\n!keep.log\n")
    (root / "sub" / "data").mkdir(parents=True)
    (root / "sub" / ".grassignore").write_text("local\n")
    for name in ("a.log", "keep.log", "sub/data/x", "sub/local", "local", "code.py"):
        (root / name).write_text(name)
    (root / ".git").mkdir()
    (root / "job_results").mkdir()
    assert paths(shot(root, blobs)) == {
        b".grassignore",
        b"keep.log",
        b"local",
        b"code.py",
        b"sub",
        b"sub/.grassignore",
    }


def test_an_unchanged_folder_is_not_read_again(root: Path, blobs: CountingStore) -> None:
    for number in range(10):
        (root / str(number)).write_text(str(number))
    first = shot(root, blobs)
    blobs.stored = 0
    assert shot(root, blobs).id == first.id
    assert blobs.stored == 1  # the manifest itself
    (root / "3").write_text("changed")
    assert shot(root, blobs).id != first.id
    assert blobs.stored == 3


def test_a_change_that_keeps_size_and_time_is_seen(root: Path, blobs: BlobStore) -> None:
    (root / "a").write_text("one")
    first = shot(root, blobs)
    status = (root / "a").stat()
    (root / "a").write_text("two")
    os.utime(root / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert shot(root, blobs).id != first.id


def test_a_file_that_was_just_written_is_read_again(root: Path, blobs: CountingStore) -> None:
    """Within one tick of the file system's clock a second change leaves the same times."""
    (root / "a").write_text("one")
    written = (root / "a").stat().st_ctime_ns
    for expected in (2, 4):
        snapshot(os.fsencode(root), blobs, now_ns=lambda: written + 10**6)
        assert blobs.stored == expected


def test_a_content_that_has_been_removed_is_stored_again(root: Path, blobs: BlobStore) -> None:
    (root / "a").write_text("one")
    manifest = shot(root, blobs)
    os.unlink(blobs.path(manifest.files[0].hash))
    assert shot(root, blobs).id == manifest.id
    assert not blobs.missing([manifest.files[0].hash])


def test_a_damaged_list_of_hashes_costs_time_only(root: Path, blobs: BlobStore, tmp_path: Path) -> None:
    (root / "a").write_text("one")
    manifest = shot(root, blobs)
    for file in (tmp_path / "blobs" / "seen").iterdir():
        file.write_bytes(file.read_bytes()[:-20] + b"\xff garbage")
    assert shot(root, blobs).id == manifest.id


class Changing(BlobStore):
    """Changes a file in the middle of its being read, a number of times."""

    def __init__(self, folder: bytes, victim: Path, times: int) -> None:
        super().__init__(folder)
        self._victim = victim
        self._left = times

    def put_chunks(self, chunks: Iterable[bytes]) -> Stored:
        def changed() -> Iterable[bytes]:
            for chunk in chunks:
                yield chunk
                if self._left:
                    self._left -= 1
                    with self._victim.open("a") as file:
                        file.write("more")

        return super().put_chunks(changed())


def test_a_file_that_changes_while_it_is_read_is_read_again(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("start")
    blobs = Changing(os.fsencode(tmp_path / "blobs"), root / "a", 2)
    manifest = shot(root, blobs)
    materialise(manifest, blobs, os.fsencode(tmp_path / "copy"))
    assert (tmp_path / "copy" / "a").read_text() == "startmoremore" == (root / "a").read_text()


def test_a_file_that_changes_all_the_time_is_a_sentence(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("start")
    with pytest.raises(BadInput, match="changes all the time"):
        shot(root, Changing(os.fsencode(tmp_path / "blobs"), root / "a", 1000))


def test_a_snapshot_beside_writers_has_whole_files_only(root: Path, blobs: BlobStore, tmp_path: Path) -> None:
    """Every version of a file is one letter: a mixture would be two versions."""
    size = 300_000
    stop = threading.Event()

    def write(name: str) -> None:
        version = 0
        while not stop.is_set():
            version += 1
            (root / f"{name}.new").write_bytes(bytes([97 + version % 26]) * size)
            os.rename(root / f"{name}.new", root / name)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    try:
        for number in range(20):
            manifest = snapshot(os.fsencode(root), blobs)
            materialise(manifest, blobs, os.fsencode(tmp_path / f"copy {number}"))
            for name in {"a", "b"} & set(os.listdir(tmp_path / f"copy {number}")):
                content = (tmp_path / f"copy {number}" / name).read_bytes()
                assert len(content) == size and len(set(content)) == 1
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_what_is_too_much_is_a_sentence(root: Path, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (root / str(number)).write_text("12345")
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "ENTRIES_MAX", 3)
        with pytest.raises(BadInput, match="more than 3 files and folders"):
            shot(root, blobs)
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "BYTES_MAX", 19)
        with pytest.raises(BadInput, match="GiB"):
            shot(root, blobs)
    with pytest.raises(BadInput, match="is not a folder"):
        shot(root / "0", blobs)
    with pytest.raises(BadInput, match="is not a folder"):
        shot(root / "not there", blobs)


@contextmanager
def bound_by_modes() -> Iterator[Path]:
    """Yield a folder of a user who cannot read everything, and be this user."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


def test_a_file_that_cannot_be_read_is_a_sentence() -> None:
    with bound_by_modes() as folder:
        (folder / "root").mkdir()
        (folder / "root" / "secret").touch(mode=0)
        with pytest.raises(BadInput, match="secret' cannot be read"):
            shot(folder / "root", BlobStore(os.fsencode(folder / "blobs")))


def test_progress_ends_at_the_whole(root: Path, blobs: BlobStore) -> None:
    (root / "a").write_bytes(bytes(1000))
    (root / "b").write_bytes(bytes(500))
    seen: list[tuple[int, int]] = []
    snapshot(os.fsencode(root), blobs, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1500, 1500)


def test_a_tree_is_made_whole_or_not_at_all(root: Path, blobs: BlobStore, tmp_path: Path) -> None:
    for number in range(5):
        (root / str(number)).write_text(str(number))
    manifest = shot(root, blobs)
    os.unlink(blobs.path(manifest.files[-1].hash))
    with pytest.raises(Exception, match="is missing"):
        materialise(manifest, blobs, os.fsencode(tmp_path / "made" / "copy"))
    assert os.listdir(tmp_path / "made") == []


def test_a_tree_never_goes_over_files(root: Path, blobs: BlobStore, tmp_path: Path) -> None:
    (root / "a").write_text("a")
    manifest = shot(root, blobs)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    with pytest.raises(Refused, match="is there already"):
        materialise(manifest, blobs, os.fsencode(tmp_path / "mine"))
    assert os.listdir(tmp_path / "mine") == ["thesis"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".grass")]
