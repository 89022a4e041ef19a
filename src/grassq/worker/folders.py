"""The folders of jobs on this computer: their removal, and what they take of the disk."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection, Iterable

from grassq.core.messages import LeftFolder
from grassq.run import processes, rundir

log = logging.getLogger(__name__)

#: Bytes of a block in the status of a file, whatever the file system's own blocks are.
BLOCK = 512


def remove(home: str, jobs: Iterable[int], spare: Collection[int], boot: str) -> list[LeftFolder]:
    """Remove the folders of jobs, of those in `spare` all but the checkpoints; return what is still there."""
    left = []
    for job in jobs:
        folder = f"{home}/jobs/{job}"
        attempts = [f"{folder}/{attempt}" for attempt in rundir.numbers(folder)]
        why = _why_kept(attempts, boot) or _removed(attempts if job in spare else [folder])
        if why:
            log.warning("folder_left job=%s: %s", job, why)
            left.append(LeftFolder(job, size([folder]), why))
    return left


def _why_kept(attempts: Iterable[str], boot: str) -> str:
    """Return why attempts must keep their run dirs now; "" if they need not."""
    try:
        return "something of it still runs" if any(_is_alive(path, boot) for path in attempts) else ""
    except OSError as error:
        return f"its processes cannot be looked for: {error.strerror}"


def _is_alive(path: str, boot: str) -> bool:
    found = rundir.look(path, boot)
    if found.exit is not None:
        return False  # its shim waits for its next order
    if found.shim_alive and found.shim is not None and not found.command_alive:
        # A shim that has nothing below it waits until it can write the exit record, as on a full disk.
        return bool(processes.descendants(found.shim[0]))
    return found.command_alive or bool(found.members)


def _removed(paths: Iterable[str]) -> str:
    """Remove directories as far as possible; return why something is left, "" if nothing is."""
    why = ""
    for path in paths:
        try:
            shutil.rmtree(path)
        except OSError as error:
            # The rest of it: the first error has ended the removal.
            shutil.rmtree(path, ignore_errors=True)
            if os.path.lexists(path):
                why = f"{error.strerror}: {os.fsdecode(error.filename or path)}"
    return why


def size(folders: Iterable[str]) -> int:
    """Return the bytes that folders take of the disk; what cannot be read counts nothing."""
    total = 0
    left = list(folders)
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:
            continue
    return total
