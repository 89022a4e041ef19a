"""Contents are kept once, whole, and as long as they are used."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from grassq.files.blobs import CHUNK, GRACE_S, NOTED_S, BlobDamaged, BlobStore
from grassq.files.manifest import FILE, Entry, Manifest


class Clock:
    """The time of day, as a test sets it."""

    now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def blobs(tmp_path: Path, clock: Clock) -> BlobStore:
    return BlobStore(os.fsencode(tmp_path / "blobs"), now=clock)


def test_a_content_is_kept_by_its_hash_for_its_owner_only(blobs: BlobStore, tmp_path: Path) -> None:
    hash_ = blobs.put(b"content")
    assert hash_ == hashlib.sha256(b"content").hexdigest()
    assert b"".join(blobs.read(hash_, 7)) == b"content"
    assert os.stat(blobs.path(hash_)).st_mode & 0o777 == 0o600
    assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700
    blobs.sync()


def test_the_missing_are_named(blobs: BlobStore) -> None:
    here = blobs.put(b"here")
    other = hashlib.sha256(b"other").hexdigest()
    assert blobs.missing([other, here, other]) == [other]


def test_a_large_content_is_read_from_any_offset(blobs: BlobStore) -> None:
    content = os.urandom(2 * CHUNK + 100)
    stored = blobs.put_chunks([content[:100], content[100:]])
    for offset in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 99, len(content)):
        assert b"".join(blobs.read(stored.hash, stored.size, offset)) == content[offset:]


@pytest.mark.parametrize("damage", [b"", b"CONTENT", b"content and more"])
def test_a_damaged_content_is_never_given_whole(blobs: BlobStore, damage: bytes) -> None:
    hash_ = blobs.put(b"content")
    Path(os.fsdecode(blobs.path(hash_))).write_bytes(damage)
    with pytest.raises(BlobDamaged, match="submit the job again"):
        list(blobs.read(hash_, 7))
    assert blobs.missing([hash_]) == [hash_]


def test_a_name_that_is_no_hash_is_never_a_path(blobs: BlobStore) -> None:
    with pytest.raises(ValueError, match="not a hash"):
        blobs.use("../../etc/passwd")


def test_a_failed_write_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    def broken() -> object:
        yield b"some"
        raise OSError("cut")

    with pytest.raises(OSError, match="cut"):
        blobs.put_chunks(broken())  # type: ignore[arg-type]
    assert os.listdir(tmp_path / "blobs") == []


def test_many_writers_of_one_content_do_not_meet(blobs: BlobStore) -> None:
    threads = [threading.Thread(target=blobs.put, args=(b"same",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert b"".join(blobs.read(hashlib.sha256(b"same").hexdigest(), 4)) == b"same"


def aged(blobs: BlobStore, clock: Clock, *contents: bytes) -> list[str]:
    """Contents that were used one after another, long ago."""
    hashes = []
    for content in contents:
        hashes.append(blobs.put(content))
        blobs.use(hashes[-1])
        clock.now += 10
    clock.now += GRACE_S
    return hashes


def test_the_contents_not_used_for_longest_go_first(blobs: BlobStore, clock: Clock) -> None:
    hashes = aged(blobs, clock, b"a" * 100, b"b" * 100, b"c" * 100)
    assert blobs.gc([], 300) == 0
    assert blobs.gc([], 150) == 200
    assert blobs.missing(hashes) == hashes[:2]


def test_a_use_saves_a_content(blobs: BlobStore, clock: Clock) -> None:
    hashes = aged(blobs, clock, b"a" * 100, b"b" * 100)
    assert blobs.use(hashes[0])
    blobs.gc([], 0)
    assert blobs.missing(hashes) == [hashes[1]]


@pytest.mark.parametrize("before_s", [0, 1, NOTED_S, NOTED_S + 1])
def test_a_use_saves_a_content_for_some_time_also_soon_after_another_use(
    blobs: BlobStore, clock: Clock, before_s: float
) -> None:
    (hash_,) = aged(blobs, clock, b"a" * 100)
    blobs.use(hash_)
    clock.now += before_s
    blobs.use(hash_)
    clock.now += GRACE_S - NOTED_S - 1
    blobs.gc([], 0)
    assert blobs.missing([hash_]) == []


def test_the_trees_of_jobs_are_kept(blobs: BlobStore, clock: Clock) -> None:
    content, other = aged(blobs, clock, b"content", b"other")
    manifest = Manifest([Entry(b"a", FILE, 7, content)])
    blobs.put(manifest.text)
    blobs.gc([manifest.id, hashlib.sha256(b"a tree that is not here").hexdigest()], 0)
    assert blobs.missing([content, other, manifest.id]) == [other]


def test_a_content_that_is_used_while_others_are_removed_stays(
    blobs: BlobStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = aged(blobs, clock, b"a" * 100, b"b" * 100, b"c" * 100, b"d" * 100)
    client = BlobStore(blobs.folder, now=clock)
    unlink = os.unlink

    def others_come(path: bytes) -> None:
        """As the first content goes, a client uses the second, and another daemon removes the third."""
        monkeypatch.setattr(os, "unlink", unlink)
        unlink(path)
        assert client.use(hashes[1])
        unlink(blobs.path(hashes[2]))

    monkeypatch.setattr(os, "unlink", others_come)
    assert blobs.gc([], 0) == 200
    assert blobs.missing(hashes) == [hashes[0], hashes[2], hashes[3]]


def test_a_damaged_tree_of_a_job_does_not_keep_the_others_from_being_tidied(blobs: BlobStore, clock: Clock) -> None:
    content, other = aged(blobs, clock, b"content", b"other")
    damaged, whole = (Manifest([Entry(name, FILE, 7, content)]) for name in (b"a", b"b"))
    for manifest in (damaged, whole):
        blobs.put(manifest.text)
    Path(os.fsdecode(blobs.path(damaged.id))).write_bytes(b"damaged")
    notes: list[str] = []
    assert blobs.gc([damaged.id, whole.id], 0, note=notes.append) == len(b"other")
    assert blobs.missing([content, other, whole.id]) == [other]
    assert len(notes) == 1 and damaged.id[:12] in notes[0] and "is damaged" in notes[0]


def test_unfinished_files_of_a_killed_process_go(blobs: BlobStore, tmp_path: Path) -> None:
    blobs.put(b"x")
    old, new = tmp_path / "blobs" / "new.1.1", tmp_path / "blobs" / "new.2.2"
    old.touch()
    os.utime(old, (1, 1))
    new.touch()
    os.utime(new, (2_000_000_000, 2_000_000_000))
    blobs.gc([], 10**9)
    assert not old.exists() and new.exists()


def test_a_collection_of_nothing_is_nothing(tmp_path: Path) -> None:
    assert BlobStore(os.fsencode(tmp_path / "not there")).gc([], 0) == 0
