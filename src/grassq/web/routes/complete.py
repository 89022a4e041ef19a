"""GET /v1/complete: the words that a shell offers for what was typed so far: jobs, names, queues, workers and others.

A shell waits for the answer at every TAB, so each kind reads a bounded number of rows, however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypedDict

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.batch import Batch
from grassq.broker.engine import Engine
from grassq.broker.summary.devices import device_documents
from grassq.core.model import Job, State
from grassq.core.names import shown
from grassq.core.printable import printable
from grassq.errors import BadInput
from grassq.store.base import JobScan
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.access.principal import CALLER
from grassq.web.responses import document
from grassq.web.workers.machine_admin import MachineAdmin

KINDS = ("job", "name", "project", "tag", "sweep", "device", "queue", "worker", "label", "resource", "machine")
#: The most rows of one kind; more are left out without a word, because a longer prefix finds them.
ROWS_MAX = 200
#: As long as nothing is typed, only the newest jobs and the first names are offered.
FIRST_ROWS = 30
#: Names whose last command is looked up; the others have no description.
NAMES_DESCRIBED = 30
PREFIX_MAX = 100
DESCRIPTION_CHARS = 80
#: Bytes of a command that are read for its description.
COMMAND_BYTES = 400

#: A word and its description.
Row = tuple[str, str]


class CompletionQuery(Struct, frozen=True):
    """What a shell asks for."""

    kinds: tuple[str, ...]
    prefix: str = ""
    #: Only jobs in these states; none: in any.
    states: tuple[State, ...] = ()

    @property
    def rows_max(self) -> int:
        """The most rows of jobs and of names."""
        return ROWS_MAX if self.prefix else FIRST_ROWS


class CompletionRows(TypedDict):
    """Words that a shell offers."""

    #: Each word with its description.
    rows: list[Row]


def completion_route(engine: Engine, machines: MachineAdmin | None) -> Route:
    """Return the route."""
    about = Description(
        "daemon",
        "The words that a shell offers for what was typed so far",
        CompletionRows,
        query=(
            Parameter("kind", f"What to offer, with commas: {', '.join(KINDS)}", is_required=True),
            Parameter("prefix", "What the words begin with", default=""),
            Parameter("states", "Only jobs in these states, with commas", default=""),
        ),
    )
    return Route(
        "GET", "/v1/complete", partial(serve_completion, engine=engine, machines=machines), "read", about=about
    )


async def serve_completion(
    request: web.Request, engine: Engine, machines: MachineAdmin | None = None
) -> web.StreamResponse:
    """Answer with the words that begin with the prefix, each with a description of one line."""
    query = read_query(request)
    rows = await engine.read(partial(words, query=query))
    if "machine" in query.kinds and machines is not None and request[CALLER].is_local:
        rows += [(each.name, printable(each.host or "", DESCRIPTION_CHARS)) for each in machines.list()]
    return document({"rows": [row for row in rows if row[0].startswith(query.prefix)]})


def read_query(request: web.Request) -> CompletionQuery:
    """Return the question in a request; raise BadInput for what cannot be asked."""
    kinds = tuple(dict.fromkeys(request.query.get("kind", "").split(",", len(KINDS))))
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise BadInput(f"{shown(wrong[0])} is not a kind; the kinds are {', '.join(KINDS)}")
    prefix = request.query.get("prefix", "")
    if len(prefix) > PREFIX_MAX:
        raise BadInput(f"prefix is longer than {PREFIX_MAX} characters")
    named = [name for name in request.query.get("states", "").split(",", len(State)) if name]
    if unknown := [name for name in named if name not in set(State)]:
        raise BadInput(f"{shown(unknown[0])} is not a state; the states are {', '.join(State)}")
    return CompletionQuery(kinds, prefix, tuple(map(State, dict.fromkeys(named))))


def words(batch: Batch, query: CompletionQuery) -> list[Row]:
    """Return the rows of every kind except machines, in the order of the kinds asked for."""
    made = {"job": _jobs, "name": _names, "queue": _queues, "worker": _workers, "label": _labels}
    made |= {"device": _devices, "sweep": _sweeps}
    made["tag"] = lambda batch, query: [(each, "") for each in batch.store.tag_words(query.prefix, query.rows_max)]
    made["project"] = lambda batch, query: [(each, "") for each in batch.store.projects(query.prefix, query.rows_max)]
    made["resource"] = lambda batch, query: [(name, "") for name in sorted(batch.board.resource_names())]
    return [row for kind in query.kinds if kind in made for row in made[kind](batch, query)[:ROWS_MAX]]


def _jobs(batch: Batch, query: CompletionQuery) -> list[Row]:
    """Return the newest jobs whose ids begin with the prefix."""
    found: list[Job] = []
    for low, high in reversed([*_ranges(query.prefix, batch.next_id - 1)]):
        found += _scanned(batch, query.states, low, high, query.rows_max - len(found))
        if len(found) >= query.rows_max:
            break
    return [(str(job.id), _about(job)) for job in found]


def _ranges(prefix: str, highest: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of ids that begin with a prefix, lowest first."""
    if not prefix:
        yield 1, highest
        return
    if not (prefix.isascii() and prefix.isdecimal()) or prefix.startswith("0"):
        return
    low = high = int(prefix)
    while low <= highest:
        yield low, min(high, highest)
        low, high = low * 10, high * 10 + 9


def _scanned(batch: Batch, states: tuple[State, ...], low: int, high: int, limit: int) -> list[Job]:
    """Return the newest jobs of a range; no index lists succeeded jobs, so with them all states are read."""
    scan = JobScan(descending=True, after=(0.0, high + 1))
    indexed = [] if State.SUCCEEDED in states else [replace(scan, state=state) for state in states]
    stored = [job for each in indexed or [scan] for job in batch.store.scan(each, limit)]
    current = [batch.current(job) for job in stored if job.id >= low and job.id not in batch.changes.removed]
    fitting = [job for job in current if not states or job.state in states]
    return sorted(fitting, key=lambda job: job.id, reverse=True)[:limit]


def _names(batch: Batch, query: CompletionQuery) -> list[Row]:
    """Return the names of jobs and sweeps, the first of them with the command of their newest job."""
    rows: list[Row] = []
    for name in batch.store.names(query.prefix, query.rows_max):
        newest = batch.store.scan(JobScan(name=name, descending=True), 1) if len(rows) < NAMES_DESCRIBED else []
        rows.append((name, _about(batch.current(newest[0])) if newest else ""))
    return rows


def _queues(batch: Batch, query: CompletionQuery) -> list[Row]:
    board = batch.board
    return [
        (name, f"queue, {board.queued(name)} queued" + (", paused" if board.is_paused(name) else ""))
        for name in sorted(board.queue_names())
        if name.startswith(query.prefix)
    ]


def _sweeps(batch: Batch, query: CompletionQuery) -> list[Row]:
    """Return the newest sweeps by their ids, with their names."""
    newest = batch.store.newest_sweeps(ROWS_MAX)
    rows = [(str(each.id), printable(f"{each.kind} {each.name}", DESCRIPTION_CHARS)) for each in newest]
    return [row for row in rows if row[0].startswith(query.prefix)][: query.rows_max]


def _workers(batch: Batch, query: CompletionQuery) -> list[Row]:
    workers = sorted(batch.board.workers.items())
    return [
        (name, " ".join(["worker" if worker.online else "worker, silent", *worker.info.labels])[:DESCRIPTION_CHARS])
        for name, worker in workers
        if name.startswith(query.prefix)
    ]


def _devices(batch: Batch, query: CompletionQuery) -> list[Row]:
    """Return the ids of devices, of all workers."""
    rows = []
    for each in device_documents(batch):
        about = f"{each['resource']} on {each['worker']}" + (", drained" if each["drained"] else "")
        rows.append((str(each["id"]), printable(about, DESCRIPTION_CHARS)))
    return [row for row in rows if row[0].startswith(query.prefix)]


def _labels(batch: Batch, query: CompletionQuery) -> list[Row]:
    return [(label, "") for label in sorted({each for one in batch.board.workers.values() for each in one.info.labels})]


def _about(job: Job) -> str:
    """Return the state and the command of a job on one line, without control characters."""
    command = b" ".join(job.spec.command)[:COMMAND_BYTES].decode("utf-8", "replace")
    return printable(f"{job.state} {command}", DESCRIPTION_CHARS)
