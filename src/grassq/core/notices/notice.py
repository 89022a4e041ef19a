"""The end of a job as it is stored until it was told, and notices: as documents, words and variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from grassq.core.model import Job
from grassq.core.outcome import in_words
from grassq.core.printable import printable, span

#: The longest text of an error or a log line in a notice, in characters.
WORDS_MAX = 300


class JobEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job ended. Holds no environment, and of the command only the directory."""

    job: int
    queue: str
    state: str
    created: float
    finished: float
    name: str | None = None
    worker: str | None = None
    attempt: int = 0
    started: float | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    #: Whether stdout and stderr are apart.
    split: bool = False
    #: What the job names with --notify, and the directory in which its commands run.
    notify: tuple[str, ...] = ()
    cwd: bytes = b""
    #: The sweep that the job is part of.
    sweep_id: int | None = None
    #: The seconds for which the last attempt was suspended.
    suspended_s: float = 0.0

    @property
    def took_s(self) -> float | None:
        """The seconds of the last attempt; None if it never ran."""
        return None if self.started is None else max(0.0, self.finished - self.started - self.suspended_s)

    @property
    def sweep(self) -> tuple[str, float] | None:
        """What the jobs of one sweep share: its id or their name, and the moment of their submission; None without."""
        shared = self.name if self.sweep_id is None else f"sweep:{self.sweep_id}"
        return None if shared is None else (shared, self.created)


def end_of(job: Job) -> JobEnd:
    """Return how a job ended that has just ended."""
    assert job.finished is not None
    return JobEnd(
        job=job.id,
        queue=job.spec.queue,
        state=job.state.value,
        created=job.created,
        finished=job.finished,
        name=job.name,
        worker=None if job.placement is None else job.placement.worker,
        attempt=job.attempt,
        started=job.started,
        outcome=None if job.outcome is None else job.outcome.value,
        exit_code=job.exit_code,
        signal=job.signal,
        error=None if job.error is None else printable(job.error, WORDS_MAX),
        split=job.spec.split,
        notify=job.spec.notify,
        cwd=job.spec.cwd if job.spec.notify and job.spec.by is None else b"",
        sweep_id=job.spec.sweep,
        suspended_s=job.suspended_s,
    )


encode_end = msgspec.msgpack.Encoder().encode
decode_end = msgspec.msgpack.Decoder(JobEnd).decode


class SweepTally(Struct, frozen=True):
    """How the jobs of a sweep ended."""

    name: str
    jobs: int
    succeeded: int
    failed: int
    cancelled: int
    took_s: float


class Clue(Struct, frozen=True):
    """What the log of a failed job says: its last line, and a guess at the cause."""

    last_line: str = ""
    cause: str = ""


class Notice(Struct, frozen=True, kw_only=True):
    """One message to people."""

    event: Literal["job", "failed", "sweep", "first-failure", "queue-empty", "test"]
    title: str
    at: float
    #: The job, or the last job of a sweep or queue.
    end: JobEnd | None = None
    sweep: SweepTally | None = None
    queue: str | None = None
    clue: Clue = Clue()

    @property
    def is_about_job(self) -> bool:
        """Whether the notice tells of the end of one job."""
        return self.event in ("job", "failed", "first-failure")

    @property
    def is_bad(self) -> bool:
        """Whether something failed."""
        if self.sweep is not None:
            return self.sweep.failed > 0
        return self.end is not None and self.end.state == "failed" and self.event != "queue-empty"

    @property
    def text(self) -> str:
        """The lines below the title."""
        lines = []
        if self.clue.cause:
            lines.append(f"cause: {self.clue.cause}")
        if self.clue.last_line:
            lines.append(self.clue.last_line)
        if self.end is not None and self.end.error and self.event != "queue-empty":
            lines.append(self.end.error)
        return "\n".join(lines)

    @property
    def message(self) -> str:
        """The title and the lines below it."""
        return f"{self.title}\n{self.text}" if self.text else self.title


def about_job(end: JobEnd, event: Literal["job", "failed", "first-failure"]) -> Notice:
    """Return a notice that a job has ended."""
    took = "" if end.took_s is None else f" after {span(end.took_s)}"
    how = in_words(end.outcome, end.exit_code, end.signal)
    detail = f": {how}" if end.state == "failed" and how else ""
    first = "first failure: " if event == "first-failure" else ""
    title = f"{first}job {_named(end)} {end.state}{took}{detail}"
    return Notice(event=event, title=title, at=end.finished, end=end, queue=end.queue)


def about_sweep(end: JobEnd, tally: SweepTally) -> Notice:
    """Return a notice that all jobs of a sweep have ended; `end` is the last of them."""
    counts = [(tally.succeeded, "succeeded"), (tally.failed, "failed"), (tally.cancelled, "cancelled")]
    parts = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    title = f"{tally.name} is done after {span(tally.took_s)}: {parts}"
    return Notice(event="sweep", title=title, at=end.finished, end=end, sweep=tally, queue=end.queue)


def about_queue(end: JobEnd) -> Notice:
    """Return a notice that nothing runs or waits in a queue; `end` is its last job."""
    title = f"queue {end.queue} is empty; the last job, {_named(end)}, {end.state}"
    return Notice(event="queue-empty", title=title, at=end.finished, end=end, queue=end.queue)


def a_test(at: float) -> Notice:
    """Return a notice that says that notices arrive."""
    return Notice(event="test", title="a test notice of grass: notices arrive here", at=at)


def _named(end: JobEnd) -> str:
    return f"{end.job} ({end.name})" if end.name else str(end.job)


def variables(notice: Notice, job: Mapping[str, object]) -> dict[str, str]:
    """Return what a command finds in its environment; `job` is the end of the job as a document."""
    found: dict[str, object] = {
        "GRASS_EVENT": notice.event,
        "GRASS_TITLE": notice.title,
        "GRASS_TEXT": notice.text,
        "GRASS_QUEUE": notice.queue,
        "GRASS_JOB_ID": job.get("id"),
        "GRASS_JOB_NAME": job.get("name"),
        "GRASS_STATE": job.get("state"),
        "GRASS_OUTCOME": job.get("outcome"),
        "GRASS_EXIT_CODE": job.get("exit_code"),
        "GRASS_SIGNAL": job.get("signal"),
        "GRASS_TOOK_S": job.get("took_s"),
        "GRASS_CAUSE": notice.clue.cause,
        "GRASS_LAST_LINE": notice.clue.last_line,
    }
    return {name: "" if value is None else str(value).replace("\0", "") for name, value in found.items()}
