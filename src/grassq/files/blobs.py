"""Contents of files in a folder, each once, by the SHA-256 of the content.

Several processes may use one folder. A blob is written aside and renamed: it is whole or not there. The time of a
blob's file is about the time of its last use.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, NamedTuple

from grassq.atomic_files import OURS, make_dirs
from grassq.descriptors import write_all
from grassq.errors import GrassError
from grassq.files import disk
from grassq.files.manifest import TEXT_BYTES_MAX, Manifest, parse

CHUNK = 1 << 20
#: A blob that was used in this time is never removed: a client may be about to submit a job that needs it.
GRACE_S = 24 * 3600
#: A use is noted only if the last one is this long ago: to note it takes several times as long as to look.
NOTED_S = GRACE_S / 2
_NAME = re.compile(r"[0-9a-f]{64}")


class BlobDamaged(GrassError):
    """The kept content of a file that is to be sent is missing, or is not what it was."""


class Stored(NamedTuple):
    """A content that has been stored."""

    hash: str
    size: int


class BlobStore:
    """A folder of blobs."""

    def __init__(self, folder: bytes, *, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now
        #: Whether this object has stored something since the last `sync`.
        self._is_dirty = False

    def path(self, hash_: str) -> bytes:
        """Return where a blob lies, or would lie."""
        if not _NAME.fullmatch(hash_):
            raise ValueError(f"not a hash: {hash_!r}")
        return b"%s/%s/%s" % (self.folder, hash_[:2].encode(), hash_.encode())

    def use(self, hash_: str) -> bool:
        """Note that a blob is used now; return False if it is not there."""
        try:
            path, now = self.path(hash_), self._now()
            if abs(now - os.lstat(path).st_mtime) > NOTED_S:
                os.utime(path, (now, now), follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def missing(self, hashes: Iterable[str]) -> list[str]:
        """Return the hashes that are not there; those that are count as used now."""
        return [each for each in dict.fromkeys(hashes) if not self.use(each)]

    def put(self, content: bytes) -> str:
        """Store a content, and return its hash."""
        return self.put_chunks([content]).hash

    def put_chunks(self, chunks: Iterable[bytes]) -> Stored:
        """Store a content that comes in chunks; the caller checks the hash where it expects one."""
        make_dirs(os.fsdecode(self.folder))
        aside = b"%s/new.%d.%d" % (self.folder, os.getpid(), time.monotonic_ns())
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OURS, 0o600)
        try:
            digest = hashlib.sha256()
            size = 0
            try:
                for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    write_all(fd, chunk)
            finally:
                os.close(fd)
            self._adopt(aside, digest.hexdigest())
        except BaseException:
            os.unlink(aside)
            raise
        return Stored(digest.hexdigest(), size)

    def _adopt(self, aside: bytes, hash_: str) -> None:
        target = self.path(hash_)
        try:
            os.rename(aside, target)
        except FileNotFoundError:
            make_dirs(os.fsdecode(os.path.dirname(target)))
            os.rename(aside, target)
        self._is_dirty = True

    def sync(self) -> None:
        """Have everything that was stored on the disk, if this object has stored something."""
        if not self._is_dirty:
            return
        fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | OURS)
        try:
            disk.sync(fd)
        finally:
            os.close(fd)
        self._is_dirty = False

    def open(self, hash_: str) -> BinaryIO:
        """Open a blob to read it; `read` checks what it reads, this does not."""
        try:
            return open(os.open(self.path(hash_), os.O_RDONLY | OURS), "rb", buffering=0)
        except FileNotFoundError:
            raise _damaged(hash_, "is missing") from None

    def read(self, hash_: str, size: int, offset: int = 0) -> Iterator[bytes]:
        """Yield the content of a blob in chunks; BlobDamaged, before the end, if its hash or size is wrong.

        With an offset the content before it is checked too, and not yielded.
        """
        digest = hashlib.sha256()
        at = 0
        held = b""
        with self.open(hash_) as blob:
            while chunk := blob.read(CHUNK):
                if held:
                    yield held
                digest.update(chunk)
                at += len(chunk)
                held = chunk[max(0, offset - (at - len(chunk))) :]
        if at != size or digest.hexdigest() != hash_:
            os.unlink(self.path(hash_))  # the next snapshot stores it again
            raise _damaged(hash_, "is damaged")
        yield held

    def manifest(self, id_: str) -> Manifest:
        """Return the manifest of a tree that a snapshot has stored here; BlobDamaged if it is not here."""
        with self.open(id_) as blob:
            text = blob.read(TEXT_BYTES_MAX + 1)
        if hashlib.sha256(text).hexdigest() != id_:
            raise _damaged(id_, "is damaged")
        return parse(text)

    def size(self) -> int:
        """Return the bytes of all blobs."""
        return sum(size for _, size, _ in self._blobs())

    def gc(self, keep: Iterable[str], most_bytes: int, *, note: Callable[[str], object] = lambda words: None) -> int:
        """Remove the blobs not used for longest until at most `most_bytes` are left; return the bytes removed.

        The trees whose ids are in `keep`, and what was used within GRACE_S, stay. `note` is told which of these trees
        are damaged: what they need is not known, and their jobs cannot start.
        """
        kept = self._needed(keep, note)
        newest = self._now() - GRACE_S
        found = sorted(self._blobs())
        excess = sum(size for _, size, _ in found) - most_bytes
        removed = 0
        for used, size, path in found:
            if removed >= excess or used > newest:
                break
            if os.path.basename(path).decode() not in kept and _unlink_unused(path, newest):
                removed += size
        self._remove_unfinished(newest)
        return removed

    def _needed(self, ids: Iterable[str], note: Callable[[str], object]) -> set[str]:
        """Return the ids of trees that are here, and the hashes of their files."""
        found = set()
        for id_ in ids:
            try:
                found |= {id_, *(entry.hash for entry in self.manifest(id_).files)} if self.use(id_) else set()
            except GrassError as error:
                note(str(error))
        return found

    def _blobs(self) -> Iterator[tuple[float, int, bytes]]:
        for number in range(256):
            try:
                with os.scandir(b"%s/%02x" % (self.folder, number)) as entries:
                    for entry in entries:
                        status = entry.stat(follow_symlinks=False)
                        yield status.st_mtime, status.st_size, entry.path
            except FileNotFoundError:
                continue

    def _remove_unfinished(self, newest: float) -> None:
        if not os.path.isdir(self.folder):
            return
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(b"new.") and entry.stat(follow_symlinks=False).st_mtime < newest:
                    os.unlink(entry.path)


def _unlink_unused(path: bytes, newest: float) -> bool:
    """Remove a blob, unless a client has used it since it was listed, which is long ago in a large folder."""
    try:
        if os.lstat(path).st_mtime > newest:
            return False
        os.unlink(path)
    except FileNotFoundError:
        return False  # another has removed it
    return True


def _damaged(hash_: str, what: str) -> BlobDamaged:
    return BlobDamaged(f"the kept content {hash_[:12]} of a file to be sent {what}: submit the job again")
