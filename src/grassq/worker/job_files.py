"""The files and the environment of a job, for every machine: what the job is sent, where it runs, what comes back."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from grassq.core.job_options import Pairs
from grassq.core.messages import Start
from grassq.core.model import Outcome, Spec
from grassq.core.names import shown
from grassq.core.states import Exited
from grassq.core.syntax.file_words import SentTree, parts_of
from grassq.errors import BadInput
from grassq.files.blobs import BlobDamaged, BlobStore
from grassq.files.manifest import FOLDER, Manifest
from grassq.files.patterns import Patterns
from grassq.run import attempt_notes, rundir
from grassq.run.wrapper import wrapped
from grassq.worker.default_env import DefaultEnvironment, before_login, passed_on

#: The problems that the error of a job names; the rest is counted.
NAMED_MAX = 3


class FetchOrder(Struct, frozen=True):
    """What to bring back of a job: the files below `root` that match, to the same paths below `to`."""

    root: bytes
    to: bytes
    patterns: tuple[bytes, ...]
    #: The umask of the submitter, for what is brought.
    umask: int = 0o022


def is_at_home(start: Start, shares_disk: bool) -> bool:
    """Tell whether a job runs where it was submitted, with the submitter's files and environment."""
    return shares_disk and start.spec.constraints.remote is None


def first_env(start: Start, default_env: DefaultEnvironment, *, shares_disk: bool) -> Pairs:
    """Return the environment that a job begins with, before the variables of its queue and its own."""
    if start.spec.env_from == "there":
        return before_login(default_env.env)
    if start.spec.env_from == "here" or is_at_home(start, shares_disk):
        return start.env
    return default_env.env if start.spec.constraints.remote is None else passed_on(default_env.env)


def directory(start: Start, path: str, default_env: DefaultEnvironment, *, shares_disk: bool) -> bytes:
    """Return the directory of a job: what it was sent, else its own, else its queue's, else the submitter's.

    On another machine the default is a directory there. `path` is the run dir.
    """
    spec = start.spec
    if spec.send:
        return os.path.join(os.fsencode(rundir.tree_dir(path)), *(parts_of(spec.cwd) if spec.own_cwd else ()))
    if start.placement.cwd is not None and not spec.own_cwd:
        return start.placement.cwd
    return spec.cwd if spec.own_cwd or is_at_home(start, shares_disk) else default_env.cwd


def wrapped_command(
    command: list[bytes], spec: Spec, path: str, own: Mapping[bytes, bytes], hidden: Collection[bytes]
) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Return the words to start, and variables for them: the command, in a wrapper if the job asks for one.

    `own` are the variables of the job, `hidden` those that only Grass may set.
    """
    if spec.env_from != "there" and spec.python is None and spec.setup is None:
        return command, {}
    return wrapped(
        command,
        os.fsencode(path),
        os.fsencode(rundir.setups_dir(path)),
        python=spec.python,
        setup=spec.setup,
        files=spec.setup_files,
        login={**dict.fromkeys(hidden), **own} if spec.env_from == "there" else None,
    )


def fetch_order(spec: Spec, path: str, cwd: bytes) -> FetchOrder | None:
    """Return what to bring back of a job that runs in `cwd`; None if it asks for nothing."""
    if not spec.fetch or spec.fetch_to is None:
        return None
    root = os.fsencode(rundir.tree_dir(path)) if spec.send else cwd
    return FetchOrder(root, spec.fetch_to, spec.fetch, spec.umask)


def note_fetch(path: str, order: FetchOrder | None) -> None:
    """Write into a run dir what to bring back when the job has ended."""
    if order is not None:
        attempt_notes.write_fetch(path, order.root, order.to, order.patterns, order.umask)


def noted_fetch(path: str, end: Exited) -> FetchOrder | None:
    """Return what is still to be brought back of an attempt that has ended; None if nothing is."""
    found = attempt_notes.read_fetch(path)
    has_run = end.outcome is not Outcome.SPAWN_FAILED and (end.code is not None or end.signal is not None)
    return FetchOrder(*found) if found is not None and has_run and attempt_notes.read_fetched(path) is None else None


def with_fetch_error(path: str, end: Exited) -> Exited:
    """Return the end of an attempt, with what could not be brought back as its error if it has no other."""
    found = attempt_notes.read_fetched(path) if end.error is None else None
    return end if found is None or found["error"] is None else replace(end, error=found["error"])


def unmatched(patterns: Iterable[bytes], paths: Collection[bytes]) -> list[str]:
    """Return a sentence for each pattern that none of the found paths matches."""
    return [f"no file matches {shown(each)}" for each in patterns if not any(map(Patterns((each,)).match, paths))]


def not_fetched(problems: list[str], where: str) -> str | None:
    """Return the error of a job whose files did not all come; `where` says where they are. None without problems."""
    if not problems:
        return None
    more = f", and {len(problems) - NAMED_MAX:,} more" if len(problems) > NAMED_MAX else ""
    return f"not fetched: {'; '.join(problems[:NAMED_MAX])}{more}; the files of the job are {where}"


def in_order(send: Iterable[SentTree]) -> list[SentTree]:
    """Return trees such that each comes after the tree that it lies in."""
    return sorted(send, key=lambda tree: len(parts_of(tree.dest)))


def check(blobs: BlobStore, send: tuple[SentTree, ...], fetch: tuple[bytes, ...]) -> None:
    """Raise BadInput for trees whose content is not here or that do not go together, and for wrong patterns."""
    Patterns(fetch)
    placed: list[tuple[tuple[bytes, ...], Manifest]] = []
    for tree in in_order(send):
        try:
            manifest = blobs.manifest(tree.manifest)
        except BlobDamaged as error:
            raise BadInput(f"{shown(tree.folder)} cannot be sent: {error}") from None
        if missing := blobs.missing(entry.hash for entry in manifest.files):
            raise BadInput(
                f"{shown(tree.folder)} cannot be sent: the content of {len(missing):,} of its files is not stored; "
                "submit the job again"
            )
        parts = parts_of(tree.dest)
        for above, other in placed:
            _check_room(parts, above, other)
        placed.append((parts, manifest))


def _check_room(parts: tuple[bytes, ...], above: tuple[bytes, ...], manifest: Manifest) -> None:
    """Refuse a tree for a place at which another tree has something, or where a folder of the other is none."""
    if parts[: len(above)] != above:
        return
    below = parts[len(above) :]
    kinds = {entry.path: entry.kind for entry in manifest.entries}
    for count in range(1, len(below) + 1):
        kind = kinds.get(b"/".join(below[:count]))
        if kind is not None and (kind != FOLDER or count == len(below)):
            where = shown(b"/".join(parts[: len(above) + count]))
            raise BadInput(f"--send cannot put a folder at {where}: another folder that is sent has {where} already")
