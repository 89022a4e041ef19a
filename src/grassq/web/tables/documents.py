"""The answers of the routes about tables, as types; the OpenAPI document is made of them."""

from __future__ import annotations

from typing import Literal, TypedDict

from grassq.broker.documents.job import AttemptDocument, JobDocument
from grassq.broker.documents.overview import SweepDocument
from grassq.broker.documents.why import StoryLineDocument, WhyJobDocument
from grassq.core.model import State
from grassq.core.sweeps.sweep import SweepKind
from grassq.web.answers.submissions import EditableJobDocument


class WindowDocument(TypedDict):
    """Some rows of a table of jobs, and how many rows the table has."""

    schema: int
    #: The jobs of the rows, as they are now; a job that was removed meanwhile is left out.
    jobs: list[JobDocument]
    #: The number of the first row, counted from 0.
    first: int
    #: How many jobs match.
    count: int
    #: False while the table is still being read, and where more jobs match than a table has.
    is_exact: bool
    #: The position in the changes as of which the rows are right: `EPOCH.SEQ`.
    since: str


class CountsDocument(TypedDict):
    """How many jobs match a query."""

    count: int
    #: By state, without the states of the query.
    states: dict[str, int]
    #: By queue, without the queues of the query; the queues with the most jobs.
    queues: dict[str, int]
    is_exact: bool
    since: str


class SkippedJobs(TypedDict):
    """Jobs that an action does not change."""

    count: int
    states: dict[str, int]


class ActDocument(TypedDict, total=False):
    """What an action did, or would do."""

    preview: bool
    action: str
    #: How many jobs the action was about; null for a repeated request.
    matched: int | None
    #: How many jobs were changed, or would be; for a rerun, how many new jobs there are.
    count: int
    #: In a preview: by state, the jobs that would be changed, and those that would be skipped.
    states: dict[str, int]
    skipped: SkippedJobs
    #: In a preview: names the set of jobs; an action that repeats it is refused if it is about other jobs by then.
    fingerprint: str
    #: In a preview: the last job at this time; the action takes it as `upto`, so that later jobs are not touched.
    upto: int
    #: Of jobs that were skipped or have something else to say.
    notes: list[str]
    #: The changed jobs; for a rerun, the new ones.
    ids: list[int]
    #: How many running jobs were told to stop, and the shortest and longest time that they have, in seconds.
    stopping: int
    grace_s: list[float]
    #: The jobs themselves, if there are few.
    jobs: list[JobDocument]
    #: After a clean: folders that could not be removed yet.
    left: dict[str, object]
    #: After a clean that keeps logs: the folder on the daemon's machine that has them now.
    kept: str | None


class SweepSummaryDocument(SweepDocument):
    """A sweep in a list of sweeps."""

    #: When the first job was submitted.
    created: str | None
    #: The id of the newest job.
    newest: int


class SweepListDocument(TypedDict):
    """Some sweeps, the newest first."""

    sweeps: list[SweepSummaryDocument]
    #: The `cursor` of the next page; null if there is none.
    next: int | None
    is_exact: bool


class SweepColumnDocument(TypedDict):
    """A column of a sweep."""

    name: str
    group: Literal["parameter", "result"]
    #: The values of a column of numbers are numbers or null, of any other texts or null.
    kind: Literal["number", "text"]
    #: Whether a logarithmic axis shows the values better.
    is_log: bool


class SweepRowDocument(TypedDict):
    """A job of a sweep."""

    id: int
    state: State
    #: One for each column, in their order; null where the job has none.
    values: list[float | str | None]
    created: str
    started: str | None
    finished: str | None
    #: How long the job ran, or has run so far; null if it has not started.
    seconds: float | None


class SweepTableDocument(TypedDict):
    """The jobs of one sweep, or of one name, with their parameters and results."""

    name: str
    #: The sweep, `sweep:ID` as a selector; null for jobs that only share a name.
    id: int | None
    #: What made the jobs, and what was typed.
    kind: SweepKind | None
    definition: str
    #: The most jobs that run at once, the failures after which nothing more starts, and why it was stopped.
    at_once: int | None
    max_fails: int | None
    stopped: str | None
    queue: str
    #: How many jobs there are; of more than 10,000 the newest are in `rows`, and `is_cut` says so.
    count: int
    is_cut: bool
    #: By state.
    counts: dict[str, int]
    since: str
    columns: list[SweepColumnDocument]
    #: The newest job first.
    rows: list[SweepRowDocument]


class RunDocument(TypedDict):
    """A run of a job that was run again."""

    id: int
    state: str


class OneJobDocument(TypedDict):
    """One job with all that a page about it shows."""

    #: With what the end of its log tells.
    job: JobDocument
    why: WhyJobDocument
    #: The oldest first; the last 100.
    attempts: list[AttemptDocument]
    #: The oldest first; the last 200 lines.
    story: list[StoryLineDocument]
    #: The variables of `--env`; null for a value that the caller may not see.
    env: dict[str, str | None]
    #: `owner`, or the name of the token the job was submitted with.
    by: str
    #: All runs of the job, this one too, the first one first.
    runs: list[RunDocument]
    #: Null if the job has started, or the caller may not edit it.
    editable: EditableJobDocument | None
    since: str


class SubmissionDocument(TypedDict):
    """How to submit a job again."""

    #: A job of `POST /v1/submit`; `env` has the variables of `--env` only.
    body: dict[str, object]
    #: The same as a line for a shell.
    command_line: str
    #: The options that the caller may not see and that both are without.
    left_out: list[str]
    #: For `rerun_of` of `POST /v1/submit`; null if the job has not ended, or the caller may not change it.
    rerun_of: int | None
