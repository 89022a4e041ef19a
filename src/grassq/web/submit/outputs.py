"""The output files of submitted jobs: made empty at the submission, so that no two jobs get one file."""

# Paths of jobs are bytes, which pathlib does not accept.
# ruff: noqa: PTH108, PTH118, PTH120

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from msgspec import UNSET
from msgspec.structs import replace

from grassq import atomic_files
from grassq.core.job_options import JobOptions
from grassq.core.model import Spec
from grassq.core.names import shown
from grassq.core.syntax.file_words import is_made_early
from grassq.errors import BadInput, GrassError, Refused
from grassq.web.requests import Submitter
from grassq.web.submit.program_check import PATH_SHOWN
from grassq.web.submit.queue_snapshot import QueueSnapshot


def completed(options: JobOptions, submitter: Submitter) -> JobOptions:
    """Return the options with an absolute output file; refuse what does not go together."""
    if options.output is None:
        return options
    if options.split:
        raise BadInput("--output has stdout and stderr in one file, and --split keeps them apart; give one of them")
    if options.log_max is not None:
        raise BadInput("--log-max cuts the log, and --output keeps all of it; give one of them")
    if submitter.is_remote:
        return _of_token(options, submitter)
    cwd = submitter.cwd if options.cwd is None or options.send else os.path.join(submitter.cwd, options.cwd)
    return replace(options, output=os.path.normpath(os.path.join(cwd, options.output)))


def _of_token(options: JobOptions, submitter: Submitter) -> JobOptions:
    output = options.output or b""
    if not submitter.caller.bare:
        # Queues with a command of their own bound what such a token can do; a file anywhere is not within the bounds.
        raise Refused("your token may not name an --output file; `grass log` has the output of the job")
    if not output.startswith(b"/"):
        raise BadInput(f"--output {shown(output, PATH_SHOWN)} from another machine must be an absolute path")
    return replace(options, output=os.path.normpath(output))


def with_output(spec: Spec, output: bytes | None) -> Spec:
    """Return a spec with a completed output file, which not every queue takes from another machine."""
    constraints = spec.constraints
    if constraints.remote is not None:
        remote = replace(constraints.remote, output=UNSET if output is None else True)
        constraints = replace(constraints, remote=remote)
    return replace(spec, output=output, constraints=constraints)


def is_here(spec: Spec, known: QueueSnapshot) -> bool:
    """Tell whether a new job has an output file, and this machine is the one that makes the file."""
    return spec.output is not None and known.runs_here(spec.queue, spec.constraints.worker)


def reserve(specs: Iterable[Spec]) -> list[bytes]:
    """Make the output files of new jobs, empty; return them. Raise Refused if one exists, and make none then.

    A file that is named by the id of its job is made when the job starts.
    """
    made: list[bytes] = []
    try:
        for spec in specs:
            if spec.output is not None and is_made_early(spec.output):
                _make(spec.output, spec.umask)
                made.append(spec.output)
    except OSError as error:
        release(made)
        raise _refusal(spec.output or b"", error) from None
    return made


def why_not(spec: Spec) -> str | None:
    """Return why the output file of a new job cannot be made; None if it can. Nothing is made."""
    if spec.output is None or not os.path.lexists(spec.output):
        return None
    return str(_refusal(spec.output, FileExistsError()))


def release(made: Iterable[bytes]) -> None:
    """Remove the files of jobs that were not stored, if they are still empty."""
    for each in made:
        with suppress(OSError):
            if os.lstat(each).st_size == 0:
                os.unlink(each)


def _make(file: bytes, umask: int) -> None:
    atomic_files.make_shared_dirs(os.fsdecode(os.path.dirname(file)), umask)
    made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # The umask of the submitter counts, and not that of the daemon.
        os.fchmod(made, 0o666 & ~umask)
    finally:
        os.close(made)


def _refusal(file: bytes, error: OSError) -> GrassError:
    if isinstance(error, FileExistsError):
        return Refused(f"the output file {shown(file, PATH_SHOWN)} exists; remove it, or name another file")
    return BadInput(f"the output file {shown(file, PATH_SHOWN)} cannot be made: {error.strerror}")
