"""A job as a document."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from grassq.core.model import Outcome, State
from grassq.core.resources.amounts import Amounts


class SentFolderDocument(TypedDict):
    """A folder that a job is sent."""

    #: The folder on the machine of the submitter.
    folder: str
    #: Where its files are, below the directory of the job.
    dest: str
    #: What names the content of the folder.
    manifest: str


class JobFilesDocument(TypedDict, total=False):
    """The files and the environment of a job that runs on another machine; only what was asked for."""

    #: The folders that the job is sent.
    send: list[SentFolderDocument]
    #: The files that are fetched when the job has ended, as patterns.
    fetch: list[str]
    #: Where the fetched files go.
    fetch_to: str
    #: Where the environment of the job comes from.
    env_from: str
    #: The Python of the job.
    python: str
    #: A command that prepares the environment.
    setup: str
    #: The files that the environment is made of.
    setup_files: list[str]


class ProgressDocument(TypedDict):
    """How far a job is, by the last lines of its log."""

    #: Units of work that are done: steps, epochs, bytes.
    done: float | None
    #: All units of work.
    total: float | None
    #: From 0 to 1.
    fraction: float | None
    #: Seconds that are left.
    left_s: float | None


class AttemptDocument(TypedDict):
    """One attempt of a job."""

    number: int
    worker: str
    #: What the attempt held: amounts, and amounts of devices.
    allocation: Amounts
    pid: int | None
    started: str | None
    ended: str | None
    outcome: Outcome | None
    exit_code: int | None
    signal: int | None
    error: str | None


class JobDocument(TypedDict):
    """A job."""

    id: int
    #: The name of the job or of its sweep.
    name: str | None
    #: The project that the job is part of.
    project: str | None
    #: The tags of the job, by key.
    tags: dict[str, str]
    queue: str
    state: State
    #: Why the job is in this state, or waits.
    reason: str | None
    #: Its worker is silent, and the command runs on.
    unreachable: bool
    #: The words of the command; of a shell job one line.
    command: list[str]
    #: Whether a shell runs the command.
    shell: bool
    #: What the job asks for, by resource.
    request: dict[str, float]
    #: What the job holds, or held last.
    allocation: Amounts | None
    #: The worker of the last attempt.
    worker: str | None
    #: The number of the last attempt; 0 before the first.
    attempt: int
    #: The process id of the command.
    pid: int | None
    exit_code: int | None
    #: The signal that ended the command.
    signal: int | None
    #: How the last attempt ended.
    outcome: Outcome | None
    #: Why the job failed, as far as Grass knows it.
    error: str | None
    #: What the job has written as its result: any JSON.
    result: object
    #: Of a job of a sweep: the value of each parameter.
    parameters: dict[str, str] | None
    #: The sweep that the job is part of: the id of its first job.
    sweep: int | None
    #: Of a job of an array: its index.
    array_index: int | None
    #: The job that this one runs again.
    rerun_of: int | None
    #: The jobs that it starts after, as ids and ranges, by condition: `ok`, `any` or `fail`.
    after: dict[str, list[str]] | None
    #: The start time or the end of the delay that it waits for.
    not_before: str | None
    #: How often the job is started until it succeeds.
    tries: int
    #: A job of a higher priority starts first.
    priority: int
    #: The directory of the submitter.
    cwd: str
    #: Whether stdout and stderr are two logs, `out` and `err`.
    split: bool
    files: JobFilesDocument | None
    #: The addresses that are told when the job has ended, without secrets.
    notify: list[str] | None
    #: Whether the job is told to end.
    cancel_requested: bool
    #: Of a suspended job, whose state stays running: its devices are kept or freed, or it is about to go on.
    suspended: Literal["kept", "freed", "resuming"] | None
    #: When it was suspended, in RFC 3339.
    suspended_since: str | None
    #: The seconds for which the last attempt was suspended before, which are no part of its run time.
    suspended_s: float
    #: Where the output of the last attempt is kept too.
    output: str | None
    #: What is put before the command, such as a container.
    wrap: str | None
    #: Seconds after which each attempt is ended, as the job asks for it.
    time_limit_s: float | None
    #: Seconds after which the last attempt is ended: the limit of the job, else the one of its queue.
    effective_time_limit_s: float | None
    #: Seconds before the limit at which the processes that handle the signal get it.
    warn_s: float | None
    #: The signal without SIG, such as USR1.
    warn_signal: str | None
    #: Seconds without output after which each attempt is ended.
    idle_limit_s: float | None
    #: When it was submitted, in RFC 3339.
    created: str
    started: str | None
    finished: str | None
    #: Why the job cannot start until a person does something.
    cannot_start: NotRequired[str | None]
    #: Why the end of the job would not be noticed now.
    cannot_end: NotRequired[str | None]
    #: The directory in which the last attempt ran.
    directory: NotRequired[str | None]
    #: Of one job with more than one attempt: all of them, the newest last.
    attempts: NotRequired[list[AttemptDocument]]
    #: For a page: whether the caller may change the job. A session with the scope submit changes its own jobs only.
    may_change: NotRequired[bool]
    #: With `look`: the last line of its log.
    last_line: NotRequired[str | None]
    #: With `look`, while it runs: how far it is.
    progress: NotRequired[ProgressDocument | None]
    #: With `look`, when it has failed: why, probably.
    cause: NotRequired[str | None]
