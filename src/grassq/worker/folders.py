"""The folders of jobs on this computer: their removal, and what they take of the disk."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import shutil
from collections.abc import Collection, Iterable, Sequence

from grassq import atomic_files
from grassq.core.messages import LeftFolder
from grassq.run import log_files, processes, rundir
from grassq.worker.local_files import project_links

log = logging.getLogger(__name__)

#: Bytes of a block in the status of a file, whatever the file system's own blocks are.
BLOCK = 512
#: The places for kept folders of jobs with one id, which are of as many stores.
PLACES_MAX = 100


def remove(home: str, jobs: Iterable[int], spare: Collection[int], boot: str) -> list[LeftFolder]:
    """Remove the folders of jobs, of those in `spare` all but the checkpoints; return what is still there."""
    left = []
    for job in jobs:
        folder = f"{home}/jobs/{job}"
        attempts = [f"{folder}/{attempt}" for attempt in atomic_files.numbers(folder)]
        project_links.remove(home, job)
        why = _why_kept(attempts, boot) or _removed(attempts if job in spare else [folder])
        if why:
            log.warning("folder_left job=%s: %s", job, why)
            left.append(LeftFolder(job, size([folder]), why))
    return left


def put_aside(home: str, jobs: Iterable[int], spare: Collection[int], boot: str) -> list[LeftFolder]:
    """Move the folders of jobs to `kept/ID`, of those in `spare` without the checkpoints; return what is left.

    Where a job of an earlier store has this place, it is `kept/ID.1`, and so on.
    """
    left = []
    for job in jobs:
        folder, kept = f"{home}/jobs/{job}", f"{log_files.kept_dir(home)}/{job}"
        why = _why_kept([f"{folder}/{attempt}" for attempt in atomic_files.numbers(folder)], boot)
        why = why or _moved(folder, _places(kept), without=("checkpoint",) if job in spare else ())
        if why:
            log.warning("folder_left job=%s: %s", job, why)
            left.append(LeftFolder(job, size([folder]), why))
        else:
            project_links.follow(home, job, os.path.basename(_last(_places(kept))))
    return left


def _places(kept: str) -> list[str]:
    return [kept, *(f"{kept}.{number}" for number in range(1, PLACES_MAX))]


def _last(places: list[str]) -> str:
    """Return the last place that is used, or the first one if none is."""
    return [places[0], *itertools.takewhile(os.path.lexists, places)][-1]


def _free(places: list[str], names: Sequence[str]) -> str:
    """Return the first place without these names."""
    for place in places:
        if not any(os.path.lexists(f"{place}/{name}") for name in names):
            return place
    raise FileExistsError(errno.EEXIST, f"{len(places)} folders are kept already; delete some", places[0])


def _moved(folder: str, places: list[str], without: Collection[str]) -> str:
    """Move what is in a folder, except some names; return why something is left, "" if nothing is."""
    try:
        # The first attempt is moved last: until then a move that was interrupted goes on in the same place.
        names = sorted((name for name in os.listdir(folder) if name not in without), key=lambda name: name == "1")
        kept = _free(places, names)
        if names:
            os.makedirs(kept, mode=0o700, exist_ok=True)
        for name in names:
            os.rename(f"{folder}/{name}", f"{kept}/{name}")
        if not without:
            os.rmdir(folder)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{error.strerror}: {os.fsdecode(error.filename or folder)}"
    return ""


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
