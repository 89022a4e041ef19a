"""The options of a job that are about files: where each folder is, and what cannot go together."""

# Paths of jobs are bytes, which pathlib does not accept.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from grassq.core.job_options import JobOptions, uses_files
from grassq.core.names import shown
from grassq.core.syntax.file_words import SentTree, check_inside, check_manifest, parts_of
from grassq.errors import BadInput
from grassq.web.requests import Submitter
from grassq.web.submit.program_check import ProgramCheck


def with_manifests(options: JobOptions, sent: Sequence[str] | None) -> JobOptions:
    """Return the options with the manifests of the folders to send, which the client has made; None: not yet."""
    if sent is None:
        return options
    if len(sent) != len(options.send):
        raise BadInput(f"the request has {len(sent)} manifests for {len(options.send)} folders to send")
    pairs = zip(options.send, sent, strict=True)
    return replace(options, send=tuple([replace(tree, manifest=check_manifest(id_)) for tree, id_ in pairs]))


def completed(options: JobOptions, submitter: Submitter, check: ProgramCheck) -> JobOptions:
    """Return the options with absolute folders; refuse what no job can have."""
    if not uses_files(options):
        return options
    if submitter.is_remote:
        raise BadInput(
            "a job from another machine takes no --send, --fetch, --env-from, --python or --setup: the broker cannot "
            "read your files; enqueue on the broker's machine"
        )
    _check_pairs(options)
    send = tuple([_absolute(tree, submitter.cwd) for tree in options.send])
    for tree in send:
        check.check_sent(tree.folder)
    cwd = options.cwd
    if send and cwd is not None:
        cwd = check_inside(cwd, "--cwd with --send")
    fetch_to = options.fetch_to
    if options.fetch:
        target = fetch_to or (send[0].folder if send else submitter.cwd)
        fetch_to = os.path.normpath(os.path.join(submitter.cwd, target))
    return replace(options, send=send, cwd=cwd, fetch_to=fetch_to)


def _check_pairs(options: JobOptions) -> None:
    if options.fetch_to is not None and not options.fetch:
        raise BadInput("--fetch-to says where the files of --fetch go; name them with --fetch PATTERN")
    if options.setup_files and options.setup is None:
        raise BadInput("--setup-files are the files that --setup reads; give --setup too")
    places = [tree.dest for tree in options.send]
    twice = next((place for number, place in enumerate(places) if place in places[:number]), None)
    if twice is not None:
        where = f"DEST {shown(twice)}" if twice else "the same place"
        raise BadInput(f"two folders of --send go to {where}; name another place for one: DIR:DEST")


def _absolute(tree: SentTree, cwd: bytes) -> SentTree:
    return replace(tree, folder=os.path.normpath(os.path.join(cwd, tree.folder)))


def directory(options: JobOptions, cwd: bytes) -> bytes:
    """Return the directory on this machine that has what the job's directory will have; `cwd` is the submitter's."""
    root = next((tree.folder for tree in options.send if not tree.dest), None)
    if root is not None:
        return os.path.join(cwd, root, *parts_of(options.cwd or b""))
    if options.cwd is None or options.send:
        return cwd
    if b"\0" in options.cwd:
        raise BadInput("--cwd holds a NUL byte")
    return os.path.join(cwd, options.cwd)


def stored_cwd(options: JobOptions, cwd: bytes) -> bytes:
    """Return the directory in a spec: with --send and --cwd relative to what is sent, else absolute."""
    if options.cwd is None:
        return cwd
    return options.cwd if options.send else os.path.join(cwd, options.cwd)


def brings_programs(options: JobOptions) -> bool:
    """Tell whether only the job's machine can tell what is a program: the job brings files or an environment."""
    is_partly_sent = bool(options.send) and all(tree.dest for tree in options.send)
    return is_partly_sent or options.env_from == "there" or options.python is not None or options.setup is not None


def unmade(send: Sequence[SentTree]) -> list[bytes]:
    """Return the folders to send, if the client has not made their manifests yet."""
    return [tree.folder for tree in send] if any(not tree.manifest for tree in send) else []
