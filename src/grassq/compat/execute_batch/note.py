"""The note about a batch that runs: which job each line is, so that the same call goes on after a crash.

The note is written before the jobs are submitted, with the key of the submission. The daemon answers a repeated
submission with the same key by the same jobs, so no line is submitted twice, whenever a call is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from grassq.compat.execute_batch.machines import BatchMachine
from grassq.errors import Refused

FORMAT = 1
#: The largest note that is read.
NOTE_MAX = 256 << 20
#: A daemon knows for seven days which jobs were submitted with a key. A note that is older is not submitted again.
KEY_S = 6 * 86400.0


class NotedJob(NamedTuple):
    """A line whose job was submitted, or was about to be."""

    name: str
    command: bytes
    #: The id of the job; None if the answer of the daemon was not received.
    job: int | None
    #: As in `BatchLine`.
    sent: str = ""


class NotedSubmission(NamedTuple):
    """The jobs of a batch in one queue."""

    queue: str
    key: str
    #: The home of the daemon that has the jobs.
    home: str
    #: The umask of the files that come back.
    umask: int
    machines: list[BatchMachine]
    #: Whether each slot of the queue is a GPU.
    by_gpu: bool
    #: What is sent to the daemon, in the order of `jobs`; empty once the ids of the jobs are known.
    documents: list[dict[str, Any]]
    #: The lines by number.
    jobs: dict[int, NotedJob]


class BatchNote:
    """The note of one batch. Locked while the call runs: two calls would both go on with the same jobs."""

    def __init__(self, folder: Path, batch: str) -> None:
        self._path = folder / f"{batch}.json"
        self._lock_path = folder / f"{batch}.lock"
        self._lock = self._locked(batch)

    def read(self) -> NotedSubmission | None:
        """Return what the note says; None if there is none. Raise Refused if it cannot be read."""
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(NOTE_MAX))
            if found["format"] != FORMAT:
                raise ValueError
            submission = NotedSubmission(
                queue=found["queue"],
                key=found["key"],
                home=found["home"],
                umask=found["umask"],
                machines=[_machine(each) for each in found["machines"]],
                by_gpu=found["by_gpu"],
                documents=found["documents"],
                jobs={
                    int(number): NotedJob(each["name"], os.fsencode(each["command"]), each["job"], each["sent"])
                    for number, each in found["jobs"].items()
                },
            )
            if submission.documents and time.time() - self._path.stat().st_mtime > KEY_S:
                raise ValueError
            return submission
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            what = f"the note about the jobs that run cannot be read: {self._path}"
            raise Refused(f"{what}; see `grass show`, and remove the note to run the lines again") from None

    def write(self, submission: NotedSubmission) -> None:
        """Write the note, aside and then renamed, and to the disk."""
        document = {
            "format": FORMAT,
            **submission._asdict(),
            "machines": [machine._asdict() for machine in submission.machines],
            "jobs": {
                str(number): {**each._asdict(), "command": os.fsdecode(each.command)}
                for number, each in submission.jobs.items()
            },
        }
        aside = self._path.with_suffix(".new")
        with aside.open("w", encoding="ascii") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(self._path)

    def remove(self) -> None:
        """Remove the note: all its jobs have ended, and their results are here."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let another call have the batch."""
        # Unlinked while it is locked: a call that opened it before finds it without a name, and opens another.
        self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)

    def _locked(self, batch: str) -> int:
        while True:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise Refused(f"another execute_batch runs {batch} in this directory; wait for its end") from None
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)


def _machine(found: dict[str, Any]) -> BatchMachine:
    return BatchMachine(found["word"], found["worker"], tuple(found["gpus"]))
