"""What a job waits for: `afterok:12:13,afterany:14`, `singleton`."""

from __future__ import annotations

import re
from typing import NamedTuple

from grassq.compat.slurm.submission.arrays import SlurmId, read_id
from grassq.core.names import shown
from grassq.errors import BadInput

#: The most jobs in one --dependency.
NAMED_MAX = 10_000
#: The option of Grass for each word. `after` waits for the start in Slurm; here for the end, and a line says so.
FIELDS = {"after": "after_any", "afterany": "after_any", "afterok": "after", "afternotok": "after_fail"}
_DELAY = re.compile(r"\+\d+$")


class WrittenDependencies(NamedTuple):
    """What a job waits for."""

    #: The field of the job document, and the id.
    ids: tuple[tuple[str, SlurmId], ...] = ()
    #: Wait for all jobs of the same name.
    singleton: bool = False
    notes: tuple[str, ...] = ()


def read_dependencies(text: str) -> WrittenDependencies:
    """Return what --dependency names; all of it has to come true."""
    if "?" in text:
        raise BadInput(f"--dependency {shown(text)}: `?` (any of them) is not possible here; name all with commas")
    ids: list[tuple[str, SlurmId]] = []
    notes: list[str] = []
    singleton = False
    for part in filter(None, text.split(",")):
        word, *named = part.split(":")
        kind = word.lower()
        if kind == "singleton":
            singleton = True
            continue
        if kind not in FIELDS:
            raise BadInput(
                f"--dependency {shown(text)}: {shown(word)} is not possible here; use afterok, afterany, afternotok, "
                "after or singleton"
            )
        if not named:
            raise BadInput(f"--dependency {shown(text)}: {word} needs job ids, as in {word}:12:13")
        if kind == "after":
            notes.append("--dependency=after waits for the end of the job, because here no job waits for a start")
        ids += [(FIELDS[kind], read_id(_DELAY.sub("", each) if kind == "after" else each)) for each in named]
    if len(ids) > NAMED_MAX:
        raise BadInput(f"--dependency names at most {NAMED_MAX:,} jobs")
    return WrittenDependencies(tuple(ids), singleton, tuple(dict.fromkeys(notes)))
