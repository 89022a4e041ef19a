"""Makes the tree of a job in its run dir, and removes what a job that succeeded has not changed of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterable

from grassq.core.syntax.file_words import SentTree
from grassq.files.blobs import BlobStore
from grassq.files.manifest import Manifest
from grassq.files.materialise import materialise
from grassq.run import attempt_notes, rundir
from grassq.worker.job_files import in_order

#: Longer than a tick of the clock of file systems: what a job changes has a later time than what it was sent.
TICK_S = 0.02


def is_made(path: str) -> bool:
    """Tell whether the tree of a run dir is there, and so whole."""
    return os.path.isdir(rundir.tree_dir(path))


def make(path: str, send: Iterable[SentTree], blobs: BlobStore, umask: int) -> None:
    """Make the tree of a run dir; nothing is there before all of it is. OSError, or GrassError if it never can be."""
    aside = os.fsencode(rundir.tree_dir(path)) + b".new"
    shutil.rmtree(aside, ignore_errors=True)  # of a daemon that was killed
    os.mkdir(aside, 0o700)
    root = aside + b"/root"
    trees = in_order(send)
    for tree in trees:
        materialise(blobs.manifest(tree.manifest), blobs, os.path.join(root, tree.dest), umask)
    attempt_notes.write_sent(path, [(tree.manifest, tree.dest) for tree in trees])
    time.sleep(TICK_S)
    os.rename(root, rundir.tree_dir(path))
    os.rmdir(aside)


def prune(path: str, blobs: BlobStore) -> None:
    """Remove the files of a tree that are as they were sent: the blobs have them. What the job changed stays."""
    found = attempt_notes.read_sent(path)
    if found is None:
        return
    made_ns, trees = found
    for manifest, dest in reversed(trees):
        _prune(blobs.manifest(manifest), os.path.join(os.fsencode(rundir.tree_dir(path)), dest), made_ns)
    attempt_notes.forget_sent(path)


def _prune(manifest: Manifest, root: bytes, made_ns: int) -> None:
    # Folders come before what lies in them, so from the end each folder is empty when its turn comes, or it stays.
    for entry in reversed(manifest.entries):
        path = os.path.join(root, entry.path)
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(path)
            elif status.st_ctime_ns <= made_ns and not (entry.is_file and status.st_size != entry.size):
                os.unlink(path)
