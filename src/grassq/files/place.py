"""Finished files are put where they are wanted, by renames through directory descriptors: never through a link.

Names come from outside. A folder that does not exist yet appears whole; in one that exists, each file replaces the
one of the same name, whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from grassq.atomic_files import OURS
from grassq.errors import Refused
from grassq.files.names import check_path, shown

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | OURS
#: Where a new folder is built, in the private folder.
_TREE = "tree"
#: A symbolic link before it has its place.
_LINK = "link"


def make_folders(path: bytes, umask: int | None) -> None:
    """Make a folder and those above it that are missing; `umask` as in `Delivery`."""
    if os.path.isdir(path):
        return
    make_folders(os.path.dirname(path), umask)
    try:
        os.mkdir(path)
    except FileExistsError:
        return  # made by another, or a file: then what goes into it cannot be made
    if umask is not None:
        os.chmod(path, 0o777 & ~umask)


class Delivery(NamedTuple):
    """What goes where: paths below the target."""

    folders: Sequence[bytes]
    #: Each path with the name that the file has in the private folder.
    files: Mapping[bytes, bytes | str]
    #: Each path with the target of the link, which `leads_out` has checked with these folders.
    links: Mapping[bytes, bytes]
    #: The umask of new folders, if not that of this process.
    umask: int | None = None


def folders_above(paths: Iterable[bytes]) -> set[bytes]:
    """Return every folder in which a path lies, without the root."""
    found: set[bytes] = set()
    for path in paths:
        while (path := path.rpartition(b"/")[0]) and path not in found:
            found.add(path)
    return found


def leads_out(path: bytes, target: bytes, folders: Collection[bytes]) -> bool:
    """Tell whether a link can lead out of the folder that it is delivered to, now or after later deliveries.

    `folders` are made by the same delivery, so each is a real folder and stays one. Any other name may become a link
    or already be one, and the place above a link is unknown: `..` must not follow it.
    """
    if target.startswith(b"/"):
        return True
    place = path.split(b"/")[:-1]
    is_known = True
    for part in target.split(b"/"):
        if part in (b"", b"."):
            continue
        if part != b"..":
            place.append(part)
            is_known = is_known and b"/".join(place) in folders
        elif not place or not is_known:
            return True
        else:
            place.pop()
    return False


def place(private: int, into: bytes, delivery: Delivery) -> None:
    """Move files of a private folder below `into`, on the same file system; Refused if something is in the way."""
    for path in (*delivery.folders, *delivery.files, *delivery.links):
        check_path(path)
    if os.path.isdir(into):
        return _into(private, into, delivery)
    shutil.rmtree(_TREE, ignore_errors=True, dir_fd=private)
    root = _open_or_make(private, _TREE, delivery.umask)
    try:
        _fill(private, root, into, delivery)
    finally:
        os.close(root)
    try:
        os.rename(_TREE, into, src_dir_fd=private)
    except OSError as error:
        if not os.path.isdir(into):
            raise Refused(f"{shown(into)} cannot be made: {error.strerror}") from error
        # Another job has brought its files there since.
        moved = {path: f"{_TREE}/".encode() + path for path in delivery.files}
        _into(private, into, delivery._replace(files=moved))


def _into(private: int, into: bytes, delivery: Delivery) -> None:
    """Move files into a folder that exists."""
    root = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _fill(private, root, into, delivery)
    finally:
        os.close(root)


def _fill(private: int, root: int, into: bytes, delivery: Delivery) -> None:
    folders, files, links, umask = delivery
    # All folders first: what is in the way of one is found before any file has been replaced.
    needed = {path.rpartition(b"/")[0] for path in (*files, *links)} | set(folders)
    for folder in sorted(needed - {b""}):
        os.close(_enter(root, folder, into, umask))
    for path in sorted({*files, *links}):
        folder, _, name = path.rpartition(b"/")
        inside = _enter(root, folder, into, umask)
        try:
            if path in files:
                os.rename(files[path], name, src_dir_fd=private, dst_dir_fd=inside)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(_LINK, dir_fd=private)  # of a call that was killed
                os.symlink(links[path], _LINK, dir_fd=private)
                os.rename(_LINK, name, src_dir_fd=private, dst_dir_fd=inside)
        except (IsADirectoryError, NotADirectoryError):
            raise Refused(f"{shown(path)} is a folder in {shown(into)}, and a file on the machine") from None
        finally:
            os.close(inside)


def _enter(root: int, folder: bytes, into: bytes, umask: int | None) -> int:
    """Open a folder below the root, and make what is missing of it; links are not followed."""
    current = os.dup(root)
    for name in folder.split(b"/") if folder else ():
        try:
            below = _open_or_make(current, name, umask)
        except OSError as error:
            what = f"{shown(folder)} in {shown(into)} is a link or a file, and a folder on the machine"
            raise Refused(f"{what}: {error.strerror}") from error
        finally:
            os.close(current)
        current = below
    return current


def _open_or_make(parent: int, name: bytes | str, umask: int | None) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, dir_fd=parent)
        made = os.open(name, _FOLDER, dir_fd=parent)
        if umask is not None:
            os.fchmod(made, 0o777 & ~umask)
        return made
