"""Reads a batch: jobs that end with `;;;`, each of three parts that are separated by `;;`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from grassq.core.names import shown
from grassq.errors import BadInput

#: Bytes of one batch, jobs in it, and problems that are told.
BATCH_BYTES_MAX = 4 << 20
BATCH_JOBS_MAX = 10_000
PROBLEMS_MAX = 100

JOB_END, PART_END = ";;;", ";;"
FORM = "NAME;;OUTFILE;;COMMAND;;;"
_PARTS = ("NAME", "OUTFILE", "COMMAND")


class BatchJob(Struct, frozen=True):
    """One job of a batch."""

    #: The line of the text on which it begins, from 1.
    line: int
    name: str
    outfile: str
    #: A line for a shell.
    command: str


class BatchProblem(Struct, frozen=True):
    """What is wrong with a job of a batch, and on which line the job begins."""

    line: int
    why: str


class ReadBatch(Struct, frozen=True):
    """The jobs of a batch, and its problems; a batch with a problem is not submitted."""

    jobs: list[BatchJob]
    problems: list[BatchProblem]


def read_batch(text: str) -> ReadBatch:
    """Read a batch; line ends become blanks. Raise BadInput for a text that has too much in it, or nothing."""
    if len(text) > BATCH_BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > BATCH_BYTES_MAX:
        raise BadInput(f"a batch has at most {BATCH_BYTES_MAX:,} bytes; send it in parts")
    if text.count(JOB_END) > BATCH_JOBS_MAX:
        raise BadInput(f"a batch has at most {BATCH_JOBS_MAX:,} jobs; send it in parts")
    jobs: list[BatchJob] = []
    problems: list[BatchProblem] = []
    for line, part in _parts(text):
        try:
            jobs.append(_job(line, part))
        except BadInput as error:
            problems.append(BatchProblem(line, str(error)))
    if not jobs and not problems:
        raise BadInput(f"the batch has no job; write each as {FORM}")
    problems += _same_files(jobs)
    return ReadBatch(jobs, sorted(problems, key=lambda each: each.line)[:PROBLEMS_MAX])


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over the jobs as text, without blank ones, each with the line on which it begins."""
    at = 1
    for part in text.replace("\r\n", "\n").split(JOB_END):
        lines = part.count("\n")
        if part.strip():
            # A job begins at its first character that is no blank.
            yield at + lines - part.lstrip().count("\n"), part
        at += lines


def _job(line: int, part: str) -> BatchJob:
    found = [each.strip() for each in part.replace("\n", " ").split(PART_END)]
    if len(found) > len(_PARTS):
        raise BadInput(f"more than three parts; if {PART_END} belongs to the command, put the command into a script")
    if len(found) < len(_PARTS):
        raise BadInput(f"{shown(part.strip())} has no {_PARTS[len(found)]}; write {FORM}")
    for name, value in zip(_PARTS, found, strict=True):
        if not value:
            raise BadInput(f"the {name} is empty; write {FORM}")
        if "\0" in value:
            raise BadInput(f"the {name} holds a NUL character")
    return BatchJob(line, *found)


def _same_files(jobs: list[BatchJob]) -> list[BatchProblem]:
    first: dict[str, BatchJob] = {}
    problems: list[BatchProblem] = []
    for job in jobs:
        other = first.setdefault(job.outfile, job)
        if other is not job and "{job." not in job.outfile:
            problems.append(BatchProblem(job.line, f"OUTFILE {shown(job.outfile)} is that of line {other.line} too"))
    return problems
