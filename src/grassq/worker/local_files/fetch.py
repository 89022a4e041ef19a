"""Brings files of a job back: they are copied to a private folder beside their target, then renamed to their places."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping

from grassq.atomic_files import OURS
from grassq.core.names import shown
from grassq.errors import GrassError
from grassq.files.manifest import ENTRIES_MAX
from grassq.files.patterns import Patterns
from grassq.files.place import Delivery, folders_above, leads_out, make_folders, place
from grassq.worker import job_files
from grassq.worker.job_files import FetchOrder, unmatched

PATH_SHOWN = 4096
CHUNK = 1 << 20

Note = Callable[[str], None]


def fetch(order: FetchOrder, label: str) -> str | None:
    """Bring the files; return None, or what could not be brought and where it is.

    A target folder that does not exist appears at once with everything in it. `label` names the attempt: a daemon
    that was killed may have left a private folder of this name, which is removed.
    """
    problems: list[str] = []
    try:
        _bring(order, label, problems.append)
    except OSError as error:
        problems.append(f"{shown(error.filename or order.to, PATH_SHOWN)}: {error.strerror}")
    except GrassError as error:
        problems.append(str(error))
    return not_fetched(order, problems)


def not_fetched(order: FetchOrder, problems: list[str]) -> str | None:
    """Return what could not be brought and where it is; None without problems."""
    return job_files.not_fetched(problems, f"in {shown(order.root, PATH_SHOWN)}")


def _bring(order: FetchOrder, label: str, note: Note) -> None:
    found = dict(_matching(order))
    for problem in unmatched(order.patterns, found):
        note(problem)
    if len(found) > ENTRIES_MAX:
        return note(f"--fetch matches more than {ENTRIES_MAX:,} files")
    is_there = os.path.isdir(order.to)
    if not found or (is_there and os.path.samefile(order.root, order.to)):
        return
    parent = order.to if is_there else os.path.dirname(order.to)
    make_folders(parent, order.umask)
    private = os.path.join(parent, b".grass-fetch-" + label.encode())
    shutil.rmtree(private, ignore_errors=True)
    os.mkdir(private, 0o700)
    folder = os.open(private, os.O_RDONLY | os.O_DIRECTORY | OURS)
    try:
        files, links = _copied(order.root, found, folder, note)
        folders = folders_above((*files, *links))
        kept = _links_that_stay(folders, links, note)
        place(folder, order.to, Delivery(sorted(folders), files, kept, order.umask))
    finally:
        os.close(folder)
        shutil.rmtree(private, ignore_errors=True)


def _matching(order: FetchOrder) -> Iterator[tuple[bytes, int]]:
    """Yield the paths that match, with their modes; one more than are allowed at most."""
    patterns = Patterns(order.patterns)
    left = ENTRIES_MAX + 1
    for start in patterns.starts:
        for path, mode in _below(order.root, b"" if start == b"." else start):
            if left and patterns.match(path):
                left -= 1
                yield path, mode


def _below(root: bytes, start: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield everything at or below a path that is no folder, with its mode; links are not followed."""
    todo = [start]
    while todo:
        path = todo.pop()
        full = os.path.join(root, path)
        try:
            mode = os.lstat(full).st_mode
            if stat.S_ISDIR(mode):
                todo += [os.path.join(path, name) for name in os.listdir(full)]
            else:
                yield path, mode
        except (FileNotFoundError, NotADirectoryError):
            continue  # no such path, or something that the job has left removes files


def _copied(
    root: bytes, found: Mapping[bytes, int], folder: int, note: Note
) -> tuple[dict[bytes, str], dict[bytes, bytes]]:
    """Copy files to numbers in the private folder; return the number of each, and the targets of links."""
    files: dict[bytes, str] = {}
    links: dict[bytes, bytes] = {}
    for path, mode in found.items():
        source = os.path.join(root, path)
        try:
            if stat.S_ISLNK(mode):
                links[path] = os.readlink(source)
            elif stat.S_ISREG(mode):
                _copy(source, str(len(files)), folder)
                files[path] = str(len(files))
            else:
                note(f"{shown(path)}: it is a socket, a fifo or a device")
        except OSError as error:
            note(f"{shown(path)}: {error.strerror}")
    return files, links


def _links_that_stay(folders: set[bytes], links: Mapping[bytes, bytes], note: Note) -> dict[bytes, bytes]:
    kept = {}
    for path, target in links.items():
        if leads_out(path, target, folders):
            note(f"{shown(path)}: the link can lead out of the job's directory, as {shown(target)}")
        else:
            kept[path] = target
    return kept


def _copy(source: bytes, name: str, folder: int) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NONBLOCK | OURS)
    try:
        writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OURS, 0o600, dir_fd=folder)
        with open(reading, "rb", closefd=False) as content, open(writing, "wb") as copy:
            shutil.copyfileobj(content, copy, CHUNK)
            copy.flush()
            status = os.fstat(reading)
            os.fchmod(writing, stat.S_IMODE(status.st_mode) & 0o777)
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fdatasync(writing)
    finally:
        os.close(reading)
