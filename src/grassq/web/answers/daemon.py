"""What the routes about the daemon itself answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict


class LauncherDocument(TypedDict):
    """The process that starts shims."""

    pid: int | None
    #: Why jobs cannot be started; null if they can.
    trouble: str | None


class LogCacheDocument(TypedDict):
    """The copies of logs of other machines."""

    logs: int
    bytes: int
    most_bytes: int
    #: Logs that are to be copied.
    waiting: int


class StrayDocument(TypedDict):
    """A folder of a job that is not stored."""

    #: The folder below the home.
    path: str
    why: str
    #: The command that submits the job again; empty if it is not known.
    again: str
    command: NotRequired[str]
    cwd: NotRequired[str]
    #: `running`, `ended`, `lost` or `not started`.
    state: NotRequired[str]
    exit_code: NotRequired[int | None]
    signal: NotRequired[int | None]
    pid: NotRequired[int | None]
    #: Its logs.
    logs: NotRequired[list[str]]


class PageDocument(TypedDict):
    """The web page of this machine."""

    #: The port on 127.0.0.1 at which the page is open; null if it is closed.
    port: int | None
    #: The port at which the page was open last.
    remembered: int | None
    #: Whether the page is part of this installation.
    is_built: bool


class InfoDocument(TypedDict):
    """What `grass doctor` shows of a daemon."""

    version: str
    pid: NotRequired[int]
    home: NotRequired[str]
    #: The address of the store, without a password.
    store: NotRequired[str]
    store_id: NotRequired[str]
    started: NotRequired[str]
    #: The Python that runs the daemon.
    python: NotRequired[str]
    #: The addresses that the broker was told to listen on.
    bind: NotRequired[str | None]
    #: Whether its worker still looks for devices.
    detecting: NotRequired[bool]
    launcher: NotRequired[LauncherDocument]
    #: The workers that are connected from other machines.
    links: NotRequired[list[str]]
    log_cache: NotRequired[LogCacheDocument | None]
    #: How many jobs are in each state.
    jobs: dict[str, int]
    strays: list[StrayDocument]
    #: Why nothing can be stored; null if it can.
    read_only: str | None
    #: Jobs that have a folder here and are in no list.
    lost_jobs: NotRequired[int]
    page: NotRequired[PageDocument | None]


class StopDocument(TypedDict):
    """A daemon that stops."""

    #: The jobs that run on.
    running: int


class NoticeRuleDocument(TypedDict):
    """A rule of notices."""

    #: The occasions.
    on: Sequence[str]
    #: The address, without secrets.
    to: str
    queue: str | None
    name: str | None


class DeliveryDocument(TypedDict):
    """A notice that waits or was sent."""

    at: str
    to: str
    event: str
    title: str
    #: `waiting`, `sent`, `failed` or another.
    state: str
    tries: int
    error: str | None


class NoticesDocument(TypedDict):
    """The rules of notices, what waits and what was sent last."""

    rules: list[NoticeRuleDocument]
    waiting: list[DeliveryDocument]
    waiting_count: int
    #: Notices that were given up because too many waited.
    dropped: int
    #: The newest first.
    recent: list[DeliveryDocument]


class NoticeTryDocument(TypedDict):
    """A try to send a test notice."""

    to: str
    ok: bool
    error: str | None


class NoticeTestDocument(TypedDict):
    """How each try went."""

    results: list[NoticeTryDocument]
