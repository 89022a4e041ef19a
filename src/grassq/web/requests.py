"""The bodies clients send, checked as they are read."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from grassq.core.model import NEUTRAL_PRIORITY, Pairs
from grassq.core.syntax.options import PRIORITY_MAX, TRIES_MAX
from grassq.errors import BadInput
from grassq.run import rundir
from grassq.web.access.principal import Principal
from grassq.web.submit.validate import Submitter

#: Words are bytes; on the wire a string if they are UTF-8, else base64.
Word = str | dict[str, str]
#: A line, or a program and its words.
Command = Word | list[Word]

JOBS_MAX = 100_000
#: Environments kept as they were read, by their text: who asks again sends the same one. Larger ones are not kept.
ENVIRONMENTS_KEPT = 8
ENVIRONMENT_KEPT_MAX = 64 << 10
GRACE_MAX_S = 365 * 86400.0
REMOTE_UMASK = 0o022
LABELS_MAX = 100

T = TypeVar("T")


class From(Struct, kw_only=True, forbid_unknown_fields=True):
    """Who sends: where, and with which environment and umask."""

    cwd: Word = "/"
    env: msgspec.Raw = msgspec.Raw(b"[]")
    umask: int = 0o022

    def submitter(self, caller: Principal) -> Submitter:
        """The sender as the service sees it: from another machine, nothing of its surroundings counts."""
        if caller.token is not None:
            return Submitter(b"", (), REMOTE_UMASK, by=caller.token, queues=caller.queues, bare=caller.bare)
        cwd = word_bytes(self.cwd)
        if not cwd.startswith(b"/"):
            raise BadInput("the cwd of a submitter is an absolute path")
        return Submitter(cwd, _environment(self.env), self.umask)


class EnqueueBody(From, kw_only=True, forbid_unknown_fields=True):
    """What was typed after `grass enqueue`, untouched."""

    words: list[Word]
    key: str
    #: A sweep is what --stdin makes of its lines, under one name.
    verb: Literal["enqueue", "run", "sweep"] = "enqueue"
    #: With --stdin: a command on each line.
    lines: Word | None = None


class JobBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One job of an SDK submission."""

    command: list[Word] = []
    shell: bool = False
    queue: str | None = None
    request: dict[str, float | int | str] | None = None
    name: str | None = None
    priority: int = NEUTRAL_PRIORITY
    env: list[tuple[Word, Word]] = []
    cwd: Word | None = None
    hold: bool = False
    split: bool = False
    keep_children: bool = False
    grace_s: float | None = None
    on_lost: Literal["fail", "requeue"] = "fail"
    tries: int = 1
    worker: str | None = None
    labels: list[str] = []

    def __post_init__(self) -> None:
        if not -PRIORITY_MAX <= self.priority <= PRIORITY_MAX:
            raise ValueError(f"priority must lie between -{PRIORITY_MAX} and {PRIORITY_MAX}")
        if not 1 <= self.tries <= TRIES_MAX:
            raise ValueError(f"tries must lie between 1 and {TRIES_MAX}")
        if len(self.labels) > LABELS_MAX:
            raise ValueError(f"a job asks for {LABELS_MAX} labels at most")
        check_grace(self.grace_s)


class SubmitBody(From, kw_only=True, forbid_unknown_fields=True):
    """Jobs submitted by a program."""

    jobs: list[JobBody]
    key: str


class ManyBody(From, kw_only=True, forbid_unknown_fields=True):
    """Many commands submitted by a program, and what all of them have in common."""

    job: JobBody
    commands: list[Command]
    key: str


class SelectBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs, and what to do with them."""

    selectors: list[str]
    key: str
    grace_s: float | None = None
    priority: int = NEUTRAL_PRIORITY
    older_s: float | None = None
    #: Kill only what has not been placed yet.
    unstarted: bool = False
    #: Run again only what failed and has not been run again since; of no selector, of all jobs.
    failed: bool = False

    def __post_init__(self) -> None:
        check_grace(self.grace_s)
        if not -PRIORITY_MAX <= self.priority <= PRIORITY_MAX:
            raise ValueError(f"a priority lies between -{PRIORITY_MAX} and {PRIORITY_MAX}")


class QueueBody(From, kw_only=True, forbid_unknown_fields=True):
    """What was typed after `grass create-queue`, untouched."""

    words: list[Word]
    key: str
    #: The queue is deleted when all its jobs have ended and it has no subscriber.
    temporary: bool = False


class NameBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A queue to delete, on this machine or on a worker."""

    name: str
    key: str
    worker: str | None = None


class PauseBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A queue to pause or resume, or everything."""

    key: str
    queue: str | None = None
    #: Go on after a backup was restored, without the workers that have not spoken yet.
    restored: bool = False


def check_grace(grace_s: float | None) -> None:
    """A grace is a finite time, 0 or more."""
    if grace_s is not None and not 0 <= grace_s <= GRACE_MAX_S:
        raise ValueError(f"a grace lies between 0 and {GRACE_MAX_S:g} seconds")


def decode(raw: bytes, kind: type[T]) -> T:
    """Read a body, or say in one line what is wrong with it."""
    try:
        body = msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the request makes no sense: {error}") from None
    key = getattr(body, "key", "0" * 32)
    if len(key) != 32 or not all(digit in "0123456789abcdef" for digit in key):
        raise BadInput("the request's key is not 32 hex digits")
    return body


def _environment(raw: msgspec.Raw) -> Pairs:
    text = bytes(raw)
    return _kept_environment(text) if len(text) <= ENVIRONMENT_KEPT_MAX else _read_environment(text)


def _read_environment(text: bytes) -> Pairs:
    try:
        pairs = msgspec.json.decode(text, type=list[tuple[Word, Word]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the request makes no sense: {error} (in `env`)") from None
    return pairs_bytes(pairs)


_kept_environment = lru_cache(maxsize=ENVIRONMENTS_KEPT)(_read_environment)


def word_bytes(word: Word) -> bytes:
    """The bytes of a word."""
    try:
        return rundir.decode_word(word)
    except ValueError:
        raise BadInput('a word is a string or {"b64": "..."}') from None


def pairs_bytes(pairs: list[tuple[Word, Word]]) -> Pairs:
    """NAME=value pairs as bytes; NUL and a name with = cannot be passed to a program."""
    read = tuple((word_bytes(name), word_bytes(value)) for name, value in pairs)
    for name, value in read:
        if not name or b"=" in name or b"\0" in name or b"\0" in value:
            raise BadInput("an environment variable has an impossible name or a NUL byte")
    return read
