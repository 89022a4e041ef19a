"""The folder view of projects: `projects/P/NAME/ID` in the home is a link to the folder of a job.

A link is made when an attempt starts, and removed with the folder of the job. A note in that folder says where the link
is, because the name of a job may change between two attempts. The links are for people: one that cannot be made is
logged, and the job runs. No link below `projects` is followed, and nothing but a link of ours is removed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from grassq import atomic_files
from grassq.core.names import looks_like_name

log = logging.getLogger(__name__)

FOLDER = "projects"
#: Where the folders of jobs are in a home, and those of removed jobs whose logs are kept.
JOBS, KEPT = "jobs", "kept"
#: The place of a job without a name; no job has this name.
UNNAMED = "-"
#: The note in the folder of a job, and its size: two names.
NOTE, NOTE_MAX = "project", 1024


def make(home: str, job: int, project: str, name: str | None) -> None:
    """Link the folder of a job, and remove the link of an earlier name."""
    parts = (project, name or UNNAMED)
    try:
        before = _noted(home, job)
        if before is not None and before != parts:
            _unlink(home, job, before)
        if before != parts:
            atomic_files.write_aside(f"{home}/jobs/{job}", NOTE, "/".join(parts).encode(), sync=False)
        with _folder(home, parts, make=True) as folder, contextlib.suppress(FileExistsError):
            os.symlink(_target(job), str(job), dir_fd=folder)
    except OSError as error:
        log.warning("project_link_failed job=%s project=%s error=%s", job, project, error.strerror)


def remove(home: str, job: int) -> None:
    """Remove the link to the folder of a job, and the folders of the link that are empty then."""
    try:
        parts = _noted(home, job)
        if parts is not None:
            _unlink(home, job, parts)
    except OSError as error:
        log.warning("project_link_left job=%s error=%s", job, error.strerror)


def follow(home: str, job: int, kept: str) -> None:
    """Let the link to the folder of a job lead to the place in `kept` where the folder was put aside."""
    try:
        parts = _noted(home, kept, KEPT)
        if parts is not None:
            _unlink(home, job, parts)
            with _folder(home, parts, make=True) as folder, contextlib.suppress(FileExistsError):
                os.symlink(_target(kept, KEPT), str(job), dir_fd=folder)
    except OSError as error:
        log.warning("project_link_left job=%s error=%s", job, error.strerror)


def _noted(home: str, job: int | str, place: str = JOBS) -> tuple[str, str] | None:
    note = atomic_files.read(f"{home}/{place}/{job}/{NOTE}", NOTE_MAX)
    project, _, name = (note or b"").decode("utf-8", "replace").partition("/")
    return (project, name) if looks_like_name(project) and (name == UNNAMED or looks_like_name(name)) else None


def _unlink(home: str, job: int, parts: tuple[str, str]) -> None:
    with contextlib.suppress(FileNotFoundError):
        with _folder(home, parts) as folder:
            if os.readlink(str(job), dir_fd=folder) == _target(job):
                os.unlink(str(job), dir_fd=folder)
        # The folder of the name, then that of the project; one that is not empty stays.
        with contextlib.suppress(OSError):
            for above in (parts[:1], ()):
                with _folder(home, above) as folder:
                    os.rmdir(parts[len(above)], dir_fd=folder)


def _target(job: int | str, place: str = JOBS) -> str:
    return f"../../../{place}/{job}"


@contextlib.contextmanager
def _folder(home: str, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Open a folder below `projects` without following a link, and make it first if asked; yield its descriptor."""
    opened = os.open(home, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in (FOLDER, *parts):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=opened)
            inner = os.open(part, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)
