"""Fetch files from the far side, which may be hostile: only what was asked for arrives, whole, below one folder.

Files come into a private folder beside their target, by names of our own. A call that was cut off left whole files and
one part there; the next call goes on with them. Targets are touched when everything has come.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from grassq.atomic_files import OURS
from grassq.core.printable import printable
from grassq.descriptors import write_all
from grassq.files import disk
from grassq.files.manifest import BYTES_MAX, ENTRIES_MAX
from grassq.files.names import check_path, shown
from grassq.files.patterns import Patterns
from grassq.files.place import Delivery, folders_above, leads_out, make_folders, place
from grassq.files.unpack import BadArchive, FileChanged, Unpacker, Wanted
from grassq.machines.far_files import (
    LARGE_BYTES,
    WORK_S,
    Conversation,
    FarCommands,
    Progress,
    TransferFailed,
    quoted,
    unexpected,
)
from grassq.machines.transport import LinkLost, Transport

#: The longest list of files that is read.
LIST_BYTES_MAX = 64 << 20
#: How often files that change while they are fetched are listed again.
ROUNDS_MAX = 4
CHUNK = 1 << 20
#: Characters of a message that are the machine's words.
WORDS_MAX = 300

#: How a record begins that says what could not be read; all others begin with a mode.
_ERROR = b"error "
#: Mode, time, size, inode, two exact times of three words each, and the path.
_RECORD = re.compile(rb"([0-9a-f]{1,8}) (-?\d{1,18}) ((\d{1,18}) \d{1,20} [0-9:.+ -]{1,100}) (\.(?:/.*)?)", re.DOTALL)


class Listed(NamedTuple):
    """One file as the far side lists it: what must be the same for a cut transfer to go on."""

    path: bytes
    mode: int
    size: int
    #: When the file was changed, in seconds.
    mtime: int
    #: The size, the inode and the exact times, in the words of the far side: the same words mean the same content.
    stamp: bytes

    @property
    def name(self) -> str:
        """The name of the file in the private folder."""
        return hashlib.sha256(self.path + b"\0" + self.stamp).hexdigest()[:40]


def fetch(
    transport: Transport,
    far: FarCommands,
    root: bytes,
    patterns: tuple[bytes, ...],
    into: bytes,
    progress: Progress | None = None,
    *,
    note: Callable[[str], None] | None = None,
    most_bytes: int = BYTES_MAX,
    umask: int | None = None,
) -> list[bytes]:
    """Bring the files below `root` that match to the folder `into`, and return their paths below both.

    LinkLost: call again, and it goes on. TransferFailed: too much matches, or `root` does not exist. `umask` is
    that of new files and folders, if not that of this process.
    """
    fetcher = _Fetcher(
        transport, far, root, Patterns(patterns), progress, note or (lambda words: None), most_bytes, umask
    )
    into = into.rstrip(b"/")
    with _private_folder(into, root, umask) as folder:
        for _ in range(ROUNDS_MAX):
            with suppress(FileChanged):
                return fetcher.run(folder, into)
    raise TransferFailed(f"the files in {shown(root)} change all the time: fetch them when the job has ended")


def discard(root: bytes, into: bytes) -> None:
    """Remove what cut fetches have left beside a target; call it when they will not go on."""
    for path in _private_paths(into.rstrip(b"/"), root):
        shutil.rmtree(path, ignore_errors=True)


def _private_paths(into: bytes, root: bytes) -> tuple[bytes, bytes]:
    """Return where the private folder is: in the target if it exists, so that renames work, else beside it."""
    name = b".grass-fetch-" + hashlib.sha256(root + b"\0" + into).hexdigest()[:16].encode("ascii")
    return into + b"/" + name, os.path.dirname(into) + b"/" + name


@contextmanager
def _private_folder(into: bytes, root: bytes, umask: int | None) -> Iterator[int]:
    """Open the private folder of a fetch, for this call alone; remove it when the call has brought everything."""
    inside, beside = _private_paths(into, root)
    path = inside if os.path.isdir(into) else beside
    make_folders(os.path.dirname(path), umask)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | OURS)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # By a call whose connection was lost: it ends soon.
            raise LinkLost(0, f"the same files are being fetched to {shown(into)} already") from None
        yield folder
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(folder)


class _Fetcher:
    def __init__(
        self,
        transport: Transport,
        far: FarCommands,
        root: bytes,
        patterns: Patterns,
        progress: Progress | None,
        note: Callable[[str], None],
        most_bytes: int,
        umask: int | None,
    ) -> None:
        self._umask = umask
        self._transport = transport
        self._far = far
        self._root = root
        self._patterns = patterns
        self._progress = progress
        self._note = note
        self._most_bytes = most_bytes
        self._done = self._total = 0

    def run(self, folder: int, into: bytes) -> list[bytes]:
        """Bring everything that matches now."""
        listed = _without_linked_folders(self._list())
        files = {path: each for path, each in listed.items() if stat.S_ISREG(each.mode)}
        links = frozenset(path for path, each in listed.items() if stat.S_ISLNK(each.mode))
        self._check_size(files, folder, into)
        missing = {path: each for path, each in files.items() if not _is_here(folder, each)}
        self._done = self._total - sum(each.size for each in missing.values())
        self._advance(0)
        large = [each for each in missing.values() if each.size >= LARGE_BYTES]
        for each in large:
            self._fetch_large(each, folder)
        small = {path: each for path, each in missing.items() if each.size < LARGE_BYTES}
        targets = self._fetch_small(small, links, folder) if small or links else {}
        for each in files.values():
            os.utime(each.name, (each.mtime, each.mtime), dir_fd=folder, follow_symlinks=False)
            if self._umask is not None:
                os.chmod(each.name, _mode(each) & ~self._umask, dir_fd=folder)
        folders = {path for path, each in listed.items() if stat.S_ISDIR(each.mode)} | folders_above(listed)
        kept = self._links_that_stay(folders, targets)
        disk.sync(folder)  # nothing on the disk is replaced by what is not yet there
        named = {path: each.name for path, each in files.items()}
        place(folder, into, Delivery(sorted(folders), named, kept, self._umask))
        return sorted([*files, *kept])

    def _list(self) -> dict[bytes, Listed]:
        """Return what matches, by path."""
        word = secrets.token_hex(16)
        with self._talk("list", word) as talk:
            talk.say(quoted(self._root) + b"".join(map(quoted, self._patterns.starts)))
            talk.end()
            self._hear(talk, "list")
            data = bytearray()
            end = b"%s end\n" % word.encode("ascii")
            while not data.endswith(end):
                more = talk.read_some(CHUNK)
                if not more:
                    raise LinkLost(0, "the connection ended in the middle of a list of files")
                data += more
                if len(data) > LIST_BYTES_MAX:
                    raise TransferFailed(f"there are too many files in {shown(self._root)}: name fewer")
        return self._parse(bytes(data[: -len(end)]), b"%s " % word.encode("ascii"))

    def _parse(self, data: bytes, word: bytes) -> dict[bytes, Listed]:
        if not data:
            return {}
        first, *records = data.removesuffix(b"\n").split(word)
        if first or len(records) > ENTRIES_MAX * 2:
            raise TransferFailed(f"there are more than {ENTRIES_MAX:,} files in {shown(self._root)}: name fewer")
        found: dict[bytes, Listed] = {}
        if error := next((record for record in records if record.startswith(_ERROR)), None):
            words = printable(error.removeprefix(_ERROR).decode("utf-8", "backslashreplace").strip(), WORDS_MAX)
            self._note(f"some of {shown(self._root)} cannot be read there: {words}")
        for record in records:
            if record.startswith(_ERROR):
                continue
            each = _parse_record(record.removesuffix(b"\n"))
            if each is not None and self._patterns.match(each.path):
                if each.path in found:
                    raise BadArchive(f"the machine lists {shown(each.path)} twice")
                found[each.path] = each
        if len(found) > ENTRIES_MAX:
            raise TransferFailed(f"more than {ENTRIES_MAX:,} files match in {shown(self._root)}: name fewer")
        return found

    def _check_size(self, files: dict[bytes, Listed], folder: int, into: bytes) -> None:
        self._total = sum(each.size for each in files.values())
        if self._total > self._most_bytes:
            raise TransferFailed(f"the files have {_mib(self._total)}: more than {_mib(self._most_bytes)}. Name fewer")
        room = os.fstatvfs(folder)
        missing = sum(each.size for each in files.values() if not _is_here(folder, each))
        if missing > room.f_bavail * room.f_frsize:
            free = _mib(room.f_bavail * room.f_frsize)
            raise TransferFailed(f"the disk here is too full: needs {_mib(missing)}, has {free} free in {shown(into)}")

    def _fetch_large(self, each: Listed, folder: int) -> None:
        """Bring one file in a stream of its own, from where the last try was cut."""
        part = each.name + ".part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND | OURS, _mode(each), dir_fd=folder)
        try:
            offset = os.fstat(fd).st_size
            if offset > each.size:
                os.ftruncate(fd, 0)
                offset = 0
            self._advance(offset)
            with self._talk("pour", str(offset)) as talk:
                talk.say(quoted(self._root) + quoted(each.path) + each.stamp + b"\n")
                if self._hear(talk, "pour", "changed") == "changed":
                    raise FileChanged(each.path)
                while offset < each.size:
                    data = talk.read_some(min(CHUNK, each.size - offset))
                    if not data:
                        raise LinkLost(0, "the connection ended in the middle of a file")
                    write_all(fd, data)
                    offset += len(data)
                    self._advance(len(data))
        finally:
            os.close(fd)
        os.rename(part, each.name, src_dir_fd=folder, dst_dir_fd=folder)

    def _fetch_small(self, files: dict[bytes, Listed], links: frozenset[bytes], folder: int) -> dict[bytes, bytes]:
        """Bring many files in one stream; return the targets of the links."""
        word = secrets.token_hex(16)
        wanted = {path: Wanted(each.size, each.name, _mode(each)) for path, each in files.items()}
        with self._talk("archive", word) as talk:
            talk.say(quoted(self._root) + b"".join(b"./%s\0" % path for path in sorted({*wanted, *links})))
            talk.end()
            self._hear(talk, "give")
            unpacker = Unpacker(talk.read, wanted, links, folder, word.encode("ascii"), self._advance)
            code = unpacker.run()
            if code != b"0":
                self._note(f"tar there ended with {shown(code)}: {talk.words}")
        missing = [each for each in files.values() if not _is_here(folder, each)]
        if missing or len(unpacker.targets) != len(links):
            raise FileChanged("a file vanished")
        return unpacker.targets

    def _links_that_stay(self, folders: set[bytes], targets: dict[bytes, bytes]) -> dict[bytes, bytes]:
        kept = {}
        for path, target in targets.items():
            if not target or b"\0" in target or leads_out(path, target, folders):
                self._note(f"{shown(path)} is not fetched: the link can lead out of the folder, as {shown(target)}")
            else:
                kept[path] = target
        return kept

    def _talk(self, *args: str) -> Conversation:
        failed = f"nothing can be fetched from {shown(self._root)}"
        return Conversation(self._transport, self._far, failed, "give", *args)

    def _hear(self, talk: Conversation, *expected: str) -> str:
        words = talk.hear(WORK_S)
        if len(words) != 1 or words[0] not in expected:
            raise unexpected(words)
        return words[0]

    def _advance(self, size: int) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self._total)


def _parse_record(record: bytes) -> Listed | None:
    """Return a file of the list; None for the folder itself."""
    found = _RECORD.fullmatch(record)
    if found is None:
        raise BadArchive("the machine gives a list of files that is not understood")
    mode, mtime, size, stamp, path = int(found[1], 16), int(found[2]), int(found[4]), found[3], found[5]
    while path.startswith(b"./"):
        path = path[2:]
    if path in (b".", b""):
        return None
    check_path(path)
    if size > BYTES_MAX or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise BadArchive(f"the machine lists {shown(path)} with a size or kind that is not understood")
    return Listed(path, mode, size, max(0, min(mtime, 1 << 33)), stamp)


def _without_linked_folders(listed: dict[bytes, Listed]) -> dict[bytes, Listed]:
    """Return the list with every folder that something lies in as a folder, also where it is a link there."""
    found = dict(listed)
    for path in listed:
        while path := path.rpartition(b"/")[0]:
            each = found.get(path)
            if each is not None and stat.S_ISLNK(each.mode):
                found[path] = each._replace(mode=stat.S_IFDIR | 0o700)
            elif each is not None and stat.S_ISREG(each.mode):
                raise BadArchive(f"the machine lists {shown(path)} as a file and as a folder")
    return found


def _is_here(folder: int, each: Listed) -> bool:
    try:
        status = os.stat(each.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == each.size


def _mode(each: Listed) -> int:
    return 0o777 if each.mode & stat.S_IXUSR else 0o666


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
