"""The bodies and the queries clients send, checked as they are read, and the submitter of a job."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from grassq.core.job_options import (
    BOUNDED_FIELDS,
    FILE_FIELDS,
    JOB_OPTIONS,
    NEUTRAL_PRIORITY,
    STOP_GRACE_S,
    JobOptions,
    Pairs,
    PlainOptions,
    check_bounds,
)
from grassq.core.model import JobId, State
from grassq.core.names import DEFAULT_QUEUE, check_key, check_name, check_tags
from grassq.core.options.parsers import FILE_WORDS_MAX, name_form
from grassq.core.options.warning import USUAL, Warn, checked_warn
from grassq.core.resources.amounts import LOG_MAX_MIN
from grassq.core.sweeps.arrays import TASKS_MAX
from grassq.core.sweeps.parameters import check_parameters
from grassq.core.sweeps.sweep import DEFINITION_CHARS_MAX
from grassq.core.syntax import shell_lines
from grassq.core.syntax.file_words import SentTree, check_dest, check_manifest, check_path
from grassq.core.syntax.numbers import is_number
from grassq.core.syntax.selectors import Selector
from grassq.core.syntax.selectors import parse as parse_selector
from grassq.core.waiting.retries import check_failures
from grassq.errors import BadInput
from grassq.run import rundir
from grassq.web.access.principal import OWNER, Principal

#: Words are bytes; on the wire a string if they are UTF-8, else base64.
Word = str | dict[str, str]
#: By the name of a parameter: its value in each of many jobs.
ParameterColumns = dict[str, list[str]]
#: A line, or a program and its words.
Command = Word | list[Word]

JOBS_MAX = 100_000
#: Lists and objects, and commas, in a body from another machine. Every other caller waits while a body is decoded, and
#: an empty list costs far more than the two bytes it is sent in.
OPENINGS_MAX, COMMAS_MAX = 50_000, 500_000
#: Decoded environments, cached by their text, because the next request mostly sends the same one. Larger ones are not.
ENVIRONMENTS_KEPT = 8
ENVIRONMENT_KEPT_MAX = 64 << 10
LABELS_MAX = 100
SELECTORS_MAX = 10_000
#: Selectors of a change from another machine, counted with each of their ids and ranges.
REMOTE_SELECTORS_MAX = 2_000

#: The options whose values are words, which the API writes as `Word`.
_WORD_FIELDS = {*FILE_FIELDS, "notify", "output", "wrap"} - {"send", "env_from"}
_WORD_OPTIONS = [option for option in JOB_OPTIONS if option.field in _WORD_FIELDS]

#: The environment in the OpenAPI document: it is decoded later than the rest of a body.
_WORD_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]}
_PAIRS_SCHEMA = {"type": "array", "items": {"type": "array", "items": _WORD_SCHEMA, "minItems": 2, "maxItems": 2}}

T = TypeVar("T")


def _no_pairs() -> msgspec.Raw:
    return msgspec.Raw(b"[]")


class Environment(Struct, frozen=True):
    """A submitter's environment, decoded and as it is stored."""

    values: Mapping[bytes, bytes]
    encoded: bytes
    digest: bytes


def environment_of(pairs: Pairs) -> Environment:
    """Return an environment in the form it is stored in."""
    encoded = msgspec.msgpack.encode(pairs)
    return Environment(dict(pairs), encoded, hashlib.sha256(encoded).digest())


_EMPTY = environment_of(())
_own_environment = lru_cache(maxsize=2)(environment_of)


class Submitter(Struct, frozen=True):
    """The sender of a job: its rights, and on this machine its directory, environment and umask.

    A job from another machine gets the worker's directory, environment and umask.
    """

    cwd: bytes = b""
    env: Environment = _EMPTY
    umask: int = 0o022
    caller: Principal = OWNER

    @property
    def is_remote(self) -> bool:
        """Whether the job comes from another machine."""
        return not self.caller.is_at_home

    @property
    def jobs_max(self) -> int:
        """How many jobs one request of this submitter may have."""
        return shell_lines.REMOTE_LINES_MAX if self.is_remote else shell_lines.LINES_MAX

    def check_count(self, count: int, most: int | None = None) -> None:
        """Raise BadInput if a request has none or too many jobs; `most` is a lower bound than that of the submitter."""
        most = self.jobs_max if most is None else min(most, self.jobs_max)
        if not 1 <= count <= most:
            what = "a submission from another machine" if self.is_remote else "a submission"
            raise BadInput(f"{what} has 1 to {most:,} jobs, not {count:,}; send more in several requests")


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a change."""

    #: 32 hex digits; a repeated request with the same key gets the answer of the first.
    key: str


class From(Body, kw_only=True):
    """The sender of a request: its directory, environment and umask."""

    #: Null or left out: `/`, and on the owner's own page the directory of the daemon.
    cwd: Word | None = None
    #: Names and values. It is decoded once for many requests: see ENVIRONMENTS_KEPT.
    env: Annotated[msgspec.Raw, Meta(extra_json_schema=_PAIRS_SCHEMA)] = msgspec.field(default_factory=_no_pairs)
    umask: int = 0o022

    def submitter(self, caller: Principal) -> Submitter:
        """Return the submitter, by the connection the request came on."""
        if not caller.is_at_home:
            return Submitter(caller=caller)
        usual = b"/" if caller.own is None else caller.own.cwd
        cwd = usual if self.cwd is None else word_bytes(self.cwd)
        if not cwd.startswith(b"/"):
            raise BadInput("the cwd of a submitter is an absolute path")
        if caller.own is not None:
            return Submitter(cwd, _own_environment(caller.own.env), caller.own.umask, caller)
        return Submitter(cwd, _environment(self.env), self.umask & 0o777, caller)


class SweepBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sweep, besides its jobs."""

    #: What was typed, for people to read.
    definition: Annotated[str, Meta(max_length=DEFINITION_CHARS_MAX)] = ""
    #: The most jobs that run at once, and the failures after which nothing more starts.
    at_once: Annotated[int, Meta(ge=1, le=TASKS_MAX)] | None = None
    max_fails: Annotated[int, Meta(ge=1, le=TASKS_MAX)] | None = None
    #: Run only what is new, changed or failed of the sweep with this name.
    apply: bool = False
    #: With `apply`: end the unfinished jobs of points that are no longer in it; only tell what would be done.
    prune: bool = False
    dry_run: bool = False


class EnqueueBody(From, kw_only=True):
    """What was typed after `grass enqueue`, unchanged."""

    words: list[Word]
    #: How many of the first words a script gave its job: they do not tell that the first plain word is a queue.
    script_words: Annotated[int, Meta(ge=0)] = 0
    #: `sweep` stores the lines of --stdin under one name.
    verb: Literal["enqueue", "run", "sweep"] = "enqueue"
    #: With --at: the time with its distance to UTC, as it is meant where it was typed.
    at: str | None = None
    #: With --stdin: a command on each line.
    lines: Word | None = None
    #: With --send: the manifest of each folder, in the order typed.
    sent: list[str] | None = None
    #: With lines: of each parameter of a sweep the value on each line.
    parameters: ParameterColumns = {}
    #: With --each: of each column of the file the value in each row, and the file.
    points: ParameterColumns | None = None
    points_file: str = "the list"
    #: With the verb `sweep`: more about the sweep.
    sweep: SweepBody = SweepBody()


class WhatIfBody(EnqueueBody, kw_only=True):
    """A job that is not submitted, as it would be typed after `grass enqueue`, and another capacity."""

    #: What a worker would have, in JSON5.
    capacity: str | None = None
    #: The worker that would have it.
    on: str | None = None


class SentBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that a job is sent, by its manifest."""

    manifest: str
    folder: Word
    dest: Word = ""

    def tree(self) -> SentTree:
        """Return the tree."""
        dest, folder = check_dest(word_bytes(self.dest), "send"), check_path(word_bytes(self.folder), "send")
        return SentTree(check_manifest(self.manifest), dest, folder)


class JobBody(PlainOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job of an SDK submission: the options of a job, in types that JSON has."""

    command: tuple[Word, ...] = ()
    shell: bool = False
    queue: str | None = None
    request: dict[str, float | int | str] | None = None
    env: tuple[tuple[Word, Word], ...] = ()
    cwd: Word | None = None
    grace_s: float | None = None  # type: ignore[assignment]  # null is the default, as if nothing was said
    send: tuple[SentBody, ...] = ()  # type: ignore[assignment]
    fetch: tuple[Word, ...] = ()  # type: ignore[assignment]
    fetch_to: Word | None = None  # type: ignore[assignment]
    python: Word | None = None  # type: ignore[assignment]
    setup: Word | None = None  # type: ignore[assignment]
    setup_files: tuple[Word, ...] = ()  # type: ignore[assignment]
    #: By name: what a job of a sweep stands for.
    parameters: dict[str, str] = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    #: By key.
    tags: dict[str, str] = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    output: Word | None = None  # type: ignore[assignment]
    wrap: Word | None = None  # type: ignore[assignment]
    #: Seconds before the time limit at which the processes of the job that handle `warn_signal` get it.
    warn: float | None = msgspec.field(default=None, name="warn_s")  # type: ignore[assignment]
    #: A signal without SIG, such as TERM; null is USR1.
    warn_signal: str | None = None

    def __post_init__(self) -> None:
        check_bounds(**{name: getattr(self, name) for name in BOUNDED_FIELDS})
        if self.log_max is not None and 0 < self.log_max < LOG_MAX_MIN:
            raise ValueError(f"log_max must be at least {LOG_MAX_MIN} bytes, or 0 for no limit")
        if len(self.labels) > LABELS_MAX:
            raise ValueError(f"a job asks for {LABELS_MAX} labels at most")
        if len(self.send) > FILE_WORDS_MAX:
            raise ValueError(f"a job is sent {FILE_WORDS_MAX} folders at most")

    def options(self) -> JobOptions:
        """Return the options of the job."""
        plain = {name: getattr(self, name) for name in PlainOptions.__struct_fields__}
        plain["name"] = None if self.name is None else name_form(self.name, "name")
        plain["project"] = None if self.project is None else check_name(self.project, "project name")
        plain["tags"] = check_tags(self.tags.items())
        plain["unique"] = None if self.unique is None else check_key(self.unique)
        plain["parameters"] = check_parameters(self.parameters)
        for name in ("retry_on", "no_retry_on"):
            plain[name] = check_failures(getattr(self, name), name) if getattr(self, name) else ()
        plain["grace_s"] = STOP_GRACE_S if self.grace_s is None else self.grace_s
        plain["warn"] = self._warn()
        plain["send"] = tuple([tree.tree() for tree in self.send])
        for option in _WORD_OPTIONS:
            if (given := plain[option.field]) not in ((), None):
                words = given if option.repeats else (given,)
                plain[option.field] = option.parse(option, [word_bytes(word) for word in words])
        return JobOptions(
            **plain,
            queue=check_name(self.queue, "queue name") if self.queue else DEFAULT_QUEUE,
            request=self.request,
            env=pairs_bytes(self.env),
            cwd=None if self.cwd is None else word_bytes(self.cwd),
            shell=b"" if self.shell else None,
        )

    def _warn(self) -> Warn | None:
        if self.warn is not None:
            return checked_warn(self.warn, self.warn_signal or USUAL, "warn_s")
        if self.warn_signal is not None:
            raise BadInput("warn_signal needs warn_s: how many seconds before the time limit it is sent")
        return None


class ProgramBody(From, kw_only=True):
    """The sender of jobs that a program made."""

    #: Whether jobs for a queue that does not exist wait until it does; if not, they are refused.
    wait_for_queue: bool = True


class SubmitBody(ProgramBody, kw_only=True):
    """Jobs submitted by a program."""

    jobs: list[JobBody]
    #: A job that has ended and that these jobs run again, changed: they have its environment and count as its runs.
    rerun_of: JobId | None = None


class SelectBody(Body, kw_only=True):
    """Selected jobs, and the parameters of an action on them."""

    selectors: list[str]
    grace_s: float | None = None
    priority: int = NEUTRAL_PRIORITY
    older_s: float | None = None
    #: Clean only jobs that had ended by this time, in seconds since the epoch.
    ended_by: float | None = None
    #: Only tell what a clean would remove, or a rerun would submit.
    dry_run: bool = False
    #: Clean: remove jobs from all lists, and leave their logs.
    keep_logs: bool = False
    #: Kill only jobs that have not been placed yet.
    unstarted: bool = False
    #: Kill or rerun the jobs that start after the selected ones, too.
    with_dependents: bool = False
    #: Rerun only jobs that failed, or were cancelled, and were not rerun since; without a selector, among all jobs.
    failed: bool = False
    cancelled: bool = False
    #: Suspend: give the devices back while the jobs are stopped.
    free: bool = False

    def __post_init__(self) -> None:
        check_bounds(grace_s=self.grace_s, priority=self.priority)

    @property
    def rerun_states(self) -> frozenset[State]:
        """The states of the jobs to rerun; empty for all selected jobs."""
        asked = {State.FAILED: self.failed, State.CANCELLED: self.cancelled}
        return frozenset(state for state, is_asked in asked.items() if is_asked)


class QueueBody(From, kw_only=True):
    """What was typed after `grass create-queue`, unchanged."""

    words: list[Word]
    #: The queue is deleted when all its jobs have ended and it has no subscriber.
    temporary: bool = False


def check_amount(raw: bytes) -> None:
    """Raise BadInput for a body that would take long to decode: it has very many values."""
    if raw.count(b"[") + raw.count(b"{") > OPENINGS_MAX or raw.count(b",") > COMMAS_MAX:
        jobs = f"a submission from another machine has at most {shell_lines.REMOTE_LINES_MAX:,} jobs"
        raise BadInput(f"the request has too many values ({jobs}); send it in several requests")


def decode(raw: bytes, kind: type[T]) -> T:
    """Decode a body; raise BadInput with one line if it is invalid."""
    try:
        body = msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"invalid request: {error}") from None
    if isinstance(body, Body) and (len(body.key) != 32 or not set(body.key) <= set("0123456789abcdef")):
        raise BadInput("the request's key is not 32 hex digits")
    return body


def _environment(raw: msgspec.Raw) -> Environment:
    text = bytes(raw)
    return _kept_environment(text) if len(text) <= ENVIRONMENT_KEPT_MAX else _read_environment(text)


def _read_environment(text: bytes) -> Environment:
    try:
        pairs = msgspec.json.decode(text, type=list[tuple[Word, Word]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"invalid request: {error} (in `env`)") from None
    return environment_of(pairs_bytes(pairs))


_kept_environment = lru_cache(maxsize=ENVIRONMENTS_KEPT)(_read_environment)


def word_bytes(word: Word) -> bytes:
    """Return the bytes of a word."""
    try:
        return rundir.decode_word(word)
    except ValueError:
        raise BadInput('a word is a string or {"b64": "..."}') from None


def pairs_bytes(pairs: Iterable[tuple[Word, Word]]) -> Pairs:
    """Return NAME=value pairs as bytes; refuse NUL bytes and names with =, which no program can be given."""
    read = tuple((word_bytes(name), word_bytes(value)) for name, value in pairs)
    for name, value in read:
        if not name or b"=" in name or b"\0" in name or b"\0" in value:
            raise BadInput("an environment variable has an invalid name or a NUL byte")
    return read


def selectors(request: web.Request) -> list[Selector]:
    """Return the selectors in a request's query."""
    return parse_selectors(request.query.getall("selector", []))


def parse_selectors(texts: list[str], *, is_remote: bool = False) -> list[Selector]:
    """Return the selectors in texts; raise BadInput for a wrong one, and for too many."""
    if len(texts) > SELECTORS_MAX:
        raise BadInput(f"more than {SELECTORS_MAX:,} selectors; use a range such as 3-7")
    if is_remote and ",".join(texts).count(",") >= REMOTE_SELECTORS_MAX:
        most = f"{REMOTE_SELECTORS_MAX:,} selectors and ids at once"
        raise BadInput(f"from another machine {most} at most; use a range such as 3-7, a state or a name")
    return [parse_selector(text) for text in texts]


def check_some(chosen: list[Selector]) -> list[Selector]:
    """Return the selectors; raise BadInput if there is none."""
    if not chosen:
        raise BadInput("say which jobs: an id, 3-7, @, all, a state, a queue or a name")
    return chosen


def number(request: web.Request, name: str, default: int, most: int) -> int:
    """Return a number from a request's query; raise BadInput if it is none from 0 to `most`."""
    text = request.query.get(name)
    if text is None:
        return default
    if not is_number(text) or int(text) > most:
        raise BadInput(f"{name}={text[:20]!r} is not a number from 0 to {most}")
    return int(text)
