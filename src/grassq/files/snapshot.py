"""Snapshots: a folder becomes a manifest, and the contents of its files become blobs."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator

from grassq import atomic_files
from grassq.errors import BadInput
from grassq.files import ignore
from grassq.files.blobs import CHUNK, BlobStore
from grassq.files.manifest import BYTES_MAX, ENTRIES_MAX, FILE, FOLDER, LINK, PROGRAM, Entry, Manifest, leaves
from grassq.files.names import check_path, shown
from grassq.files.stat_cache import StatCache

#: Called with the bytes that are done and the bytes of all.
Progress = Callable[[int, int], None]
#: How often a file that changes while it is read is read before the snapshot gives up.
READS_MAX = 5
#: How many things that cannot be sent are named; the rest is counted.
NOTES_MAX = 20

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | atomic_files.OURS


def snapshot(
    folder: bytes,
    blobs: BlobStore,
    progress: Progress | None = None,
    *,
    note: Callable[[str], None] | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> Manifest:
    """Store the files of a folder, and return what it is now; BadInput if it cannot be sent.

    `note` is told what is left out besides the ignored: sockets, devices, fifos, and links that leave the folder.
    """
    if not os.path.isdir(folder):
        raise BadInput(f"{shown(folder)} is not a folder: only folders are sent")
    notes = _Notes(note)
    found = sorted(_walk(folder, notes))
    total = sum(status.st_size for _, status in found if stat.S_ISREG(status.st_mode))
    if total > BYTES_MAX:
        raise BadInput(f"{shown(folder)} has more than {BYTES_MAX >> 30:,} GiB: {_NARROW}")
    reader = _Reader(folder, blobs, now_ns)
    entries = []
    done = 0
    for path, status in found:
        entry = reader.entry(path, status)
        if entry is not None:
            entries.append(entry)
            done += entry.size
            if progress is not None:
                progress(done, max(total, done))
    manifest = Manifest(_without_links_that_leave(entries, notes))
    blobs.put(manifest.text)
    blobs.sync()
    reader.cache.save()
    notes.end()
    return manifest


_NARROW = f"send a smaller folder, or name what is not needed in {ignore.FILE_NAME.decode()}"


class _Notes:
    """Tells what was left out, with a bound."""

    def __init__(self, tell: Callable[[str], None] | None) -> None:
        self._tell = tell
        self._count = 0

    def add(self, path: bytes, why: str) -> None:
        self._count += 1
        if self._tell is not None and self._count <= NOTES_MAX:
            self._tell(f"{shown(path)} is not sent: {why}")

    def end(self) -> None:
        if self._tell is not None and self._count > NOTES_MAX:
            self._tell(f"{self._count - NOTES_MAX:,} more are not sent")


def _walk(folder: bytes, notes: _Notes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield what is to be sent, with its status; folders are walked without recursion, however deep they are."""
    todo: list[tuple[bytes, list[ignore.Rules]]] = [(b"", [])]
    count = 0
    while todo:
        below, rules = todo.pop()
        here = folder + b"/" + below if below else folder
        text = atomic_files.read(os.fsdecode(here + b"/" + ignore.FILE_NAME), ignore.BYTES_MAX + 1)
        if text is not None:
            rules = [*rules, ignore.parse(below, text)]
        with os.scandir(here) as entries:
            for entry in entries:
                path = below + b"/" + entry.name if below else entry.name
                if ignore.is_ignored(path, entry.is_dir(follow_symlinks=False), rules):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # it was removed just now
                mode = status.st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                    notes.add(path, "it is a socket, a fifo or a device")
                    continue
                check_path(path)
                count += 1
                if count > ENTRIES_MAX:
                    raise BadInput(f"{shown(folder)} has more than {ENTRIES_MAX:,} files and folders: {_NARROW}")
                if stat.S_ISDIR(mode):
                    todo.append((path, rules))
                yield path, status


def _without_links_that_leave(entries: list[Entry], notes: _Notes) -> list[Entry]:
    """Return the entries without links that lead out of the tree, now or when others are left out."""
    by_path = {entry.path: entry for entry in entries}
    leaving = [entry for entry in entries if entry.kind == LINK and leaves(entry.path, entry.target, by_path)]
    for entry in leaving:
        notes.add(entry.path, f"the link points out of the folder, to {shown(entry.target)}")
    gone = {entry.path for entry in leaving}
    return [entry for entry in entries if entry.path not in gone]


class _Reader:
    """Makes entries of files, and reads those files only that may have changed."""

    def __init__(self, folder: bytes, blobs: BlobStore, now_ns: Callable[[], int]) -> None:
        self._folder = folder
        self._blobs = blobs
        self._now_ns = now_ns
        name = hashlib.sha256(os.path.realpath(folder)).hexdigest()[:32]
        self.cache = StatCache(f"{os.fsdecode(blobs.folder)}/seen/{name}")

    def entry(self, path: bytes, status: os.stat_result) -> Entry | None:
        """Return the entry of a path; None if there is nothing any more."""
        full = self._folder + b"/" + path
        if stat.S_ISDIR(status.st_mode):
            return Entry(path, FOLDER)
        try:
            if stat.S_ISLNK(status.st_mode):
                return Entry(path, LINK, target=os.readlink(full))
            return self._file(path, full, status)
        except FileNotFoundError:
            return None  # it was removed after the folder was listed
        except PermissionError:
            raise BadInput(f"{shown(full)} cannot be read: {_IGNORE_IT}") from None

    def _file(self, path: bytes, full: bytes, status: os.stat_result) -> Entry | None:
        known = self.cache.get(path, status)
        if known is not None and self._blobs.use(known):
            return Entry(path, _kind(status), status.st_size, known)
        for _ in range(READS_MAX):
            fd = os.open(full, _OPEN)
            try:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    return None  # another thing has taken the name
                read_at_ns = self._now_ns()
                stored = self._blobs.put_chunks(_chunks(fd, before.st_size))
                after = os.fstat(fd)
            finally:
                os.close(fd)
            if _same(before, after) and stored.size == after.st_size:
                self.cache.add(path, after, stored.hash, read_at_ns)
                return Entry(path, _kind(after), stored.size, stored.hash)
        raise BadInput(f"{shown(full)} changes all the time while it is read: {_IGNORE_IT}")


def _chunks(fd: int, size: int) -> Iterator[bytes]:
    """Yield the content of a file, up to a byte more than its size: a file that grows might have no end."""
    left = size + 1
    while left and (chunk := os.read(fd, min(left, CHUNK))):
        left -= len(chunk)
        yield chunk


_IGNORE_IT = f"wait until it is finished, or name it in {ignore.FILE_NAME.decode()}"


def _kind(status: os.stat_result) -> bytes:
    return PROGRAM if status.st_mode & stat.S_IXUSR else FILE


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    """Tell whether a file's content stayed as it was while it was read."""
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return False
    # A file that was replaced by another one has a new ctime, because it lost its name, and its old content.
    return before.st_ctime_ns == after.st_ctime_ns or before.st_nlink != after.st_nlink
