"""Trees made of manifests and blobs: aside first, then renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
import time

from grassq.atomic_files import OURS
from grassq.descriptors import write_all
from grassq.errors import Refused
from grassq.files.blobs import BlobStore
from grassq.files.manifest import FOLDER, LINK, PROGRAM, Entry, Manifest
from grassq.files.names import shown

_FICLONE = 0x40049409


def materialise(manifest: Manifest, blobs: BlobStore, into: bytes, umask: int | None = None) -> None:
    """Make a tree as a new folder; nothing is there before all of it is. Refused if a folder with files is there.

    Files and folders get the modes that `umask` leaves; None is the umask of this process.
    """
    into = into.rstrip(b"/")
    parent = os.path.dirname(into)
    os.makedirs(parent or b".", exist_ok=True)
    aside = os.path.join(parent, b".grass-tree-%x%x" % (os.getpid(), time.monotonic_ns()))
    try:
        _make(Entry(b"", FOLDER), blobs, aside, umask)
        for entry in manifest.entries:
            _make(entry, blobs, aside + b"/" + entry.path, umask)
        try:
            os.rename(aside, into)
        except OSError as error:
            raise Refused(f"{shown(into)} is there already: {error.strerror}") from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _make(entry: Entry, blobs: BlobStore, path: bytes, umask: int | None) -> None:
    if entry.kind == FOLDER:
        os.mkdir(path)
        if umask is not None:
            os.chmod(path, 0o777 & ~umask)
    elif entry.kind == LINK:
        os.symlink(entry.target, path)
    else:
        mode = 0o777 if entry.kind == PROGRAM else 0o666
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OURS, mode)
        try:
            if umask is not None:
                os.fchmod(fd, mode & ~umask)
            if not _cloned(entry, blobs, fd):
                for chunk in blobs.read(entry.hash, entry.size):
                    write_all(fd, chunk)
        finally:
            os.close(fd)


def _cloned(entry: Entry, blobs: BlobStore, fd: int) -> bool:
    """Share the blocks of a blob with a file, where the file system can: the copy costs nothing until it is changed."""
    with blobs.open(entry.hash) as blob:
        if os.fstat(blob.fileno()).st_size != entry.size:
            return False  # `read` says what is wrong
        try:
            fcntl.ioctl(fd, _FICLONE, blob.fileno())
        except OSError:
            return False
    return True
