"""What a job waits for: `afterok:12:13,afterany:14`, `after:12+5`, `singleton`."""

from __future__ import annotations

from typing import NamedTuple

from grassq.compat.slurm.submission.arrays import SlurmId, read_id
from grassq.compat.slurm.submission.values import number
from grassq.core.names import shown
from grassq.errors import BadInput

#: The most jobs in one --dependency.
NAMED_MAX = 10_000
#: Not an option of Grass: the start of a job is waited for.
STARTED = "started"
#: The option of Grass for each word. Of tasks of arrays `aftercorr` means each its own; of other jobs it is afterok.
FIELDS = {
    "after": STARTED,
    "afterany": "after_any",
    "afterok": "after",
    "aftercorr": "after",
    "afternotok": "after_fail",
}


class WrittenDependency(NamedTuple):
    """A job that is waited for."""

    #: The field of the job document, or STARTED.
    field: str
    id: SlurmId
    #: Of STARTED: how long after the start.
    delay_s: float = 0.0


class WrittenDependencies(NamedTuple):
    """What a job waits for."""

    jobs: tuple[WrittenDependency, ...] = ()
    #: Wait for all jobs of the same name.
    singleton: bool = False


def read_dependencies(text: str, *, is_array: bool = False) -> WrittenDependencies:
    """Return what --dependency names; all of it has to come true. `is_array` tells whether the job is an array."""
    if "?" in text:
        raise BadInput(f"--dependency {shown(text)}: `?` (any of them) is not possible here; name all with commas")
    jobs: list[WrittenDependency] = []
    singleton = False
    for part in filter(None, text.split(",")):
        word, *named = part.split(":")
        kind = word.lower()
        if kind == "singleton" and not named:
            singleton = True
            continue
        if kind not in FIELDS:
            raise BadInput(
                f"--dependency {shown(text)}: {shown(word)} is not possible here; use afterok, afterany, afternotok, "
                "after or singleton"
            )
        if kind == "aftercorr" and is_array:
            raise BadInput(
                f"--dependency {shown(text)}: all tasks of an array wait for the same jobs here, so that aftercorr is "
                "for jobs without --array; use afterok"
            )
        if not named:
            raise BadInput(f"--dependency {shown(text)}: {word} needs job ids, as in {word}:12:13")
        jobs += [_read(FIELDS[kind], each) for each in named]
    if len(jobs) > NAMED_MAX:
        raise BadInput(f"--dependency names at most {NAMED_MAX:,} jobs")
    return WrittenDependencies(tuple(jobs), singleton)


def _read(field: str, text: str) -> WrittenDependency:
    id_, plus, minutes = text.partition("+")
    if field != STARTED or not plus:
        return WrittenDependency(field, read_id(text))
    return WrittenDependency(field, read_id(id_), 60.0 * number(minutes, "--dependency=after:ID+MINUTES", 0))
