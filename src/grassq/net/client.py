"""Every request a daemon answers, one method each; documents in, documents out."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grassq import home as homes
from grassq.core.syntax.numbers import id_ranges
from grassq.errors import BadInput, GrassError, Refused, StoreUnavailable, Unreachable
from grassq.home import Sender
from grassq.net.encoding import new_key, query, word_value
from grassq.net.event_lines import EventLines
from grassq.net.event_stream import SILENT_S, EventStream, Known
from grassq.net.event_stream import Place as ReadTo
from grassq.net.http import ANSWER_TIMEOUT_S, ERRORS, Connection, Response, bounded
from grassq.net.log_stream import LogStream
from grassq.net.retry import exchange, persist

if TYPE_CHECKING:
    from grassq.net.http import Target

#: The longest time, in seconds, until the daemon answers a long poll.
POLL_LIMIT_S = 30.0
#: `wait` asks about at most this many jobs per request, because the answer lists each one.
WAIT_AT_ONCE = 10_000
#: The largest request a daemon takes.
REQUEST_MAX = 64 << 20
#: The status of a refusal because the store cannot be read or written, whatever was asked.
NOT_NOW = 503

Document = dict[str, Any]
#: A line, or a program and its words.
Command = Any
Tell = Callable[[str], None]


class ApiClient:
    """A sync client of one home's daemon, or of a broker. Keeps one connection open, for threads too; survives a fork.

    Nothing of this machine is sent to a broker on another machine: no environment, no directory, no umask.
    """

    def __init__(
        self, home: str | None = None, *, autostart: bool = True, broker: str | None = None, tell: Tell | None = None
    ) -> None:
        self.home = home if home is not None else homes.current()
        #: The addresses of the broker asked; None for the home's own daemon.
        self.broker = broker
        self.autostart = autostart
        self._tell = tell
        self._target: Target = self.home if broker is None else _find_broker(self.home, broker, tell)
        #: Version of the daemon that answered last.
        self.daemon_version: str | None = None
        self._connection: Connection | None = None
        self._encoded_env: tuple[dict[bytes, bytes], str] | None = None
        self._lock = threading.Lock()
        _clients.add(self)

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._lock:
            self._drop()

    def another(self) -> ApiClient:
        """Return a client like this one, with its own connection."""
        return ApiClient(self.home, autostart=self.autostart, broker=self.broker, tell=self._tell)

    def submit(
        self,
        jobs: Sequence[Document],
        *,
        cwd: bytes | None = None,
        env: Mapping[bytes, bytes] | None = None,
        umask: int | None = None,
        key: str | None = None,
    ) -> Document:
        """Store jobs, all or none; ids in the order given."""
        return self._submit("submit", {"jobs": list(jobs)}, Sender.to(self.broker, cwd, env, umask), key)

    def submit_many(
        self,
        commands: Sequence[Command],
        job: Document,
        *,
        cwd: bytes | None = None,
        env: Mapping[bytes, bytes] | None = None,
        umask: int | None = None,
        key: str | None = None,
    ) -> Document:
        """Store a job for each command, all or none; `job` has the common options. The ids are consecutive."""
        document: Document = {"job": job, "commands": commands}
        return self._submit("submit-many", document, Sender.to(self.broker, cwd, env, umask), key)

    def _submit(self, verb: str, document: Document, sender: Sender, key: str | None) -> Document:
        rest = json.dumps({**document, "cwd": word_value(sender.cwd), "umask": sender.umask, "key": key or new_key()})
        body = f'{rest[:-1]}, "env": {self._environment(sender.env)}}}'.encode("ascii")
        if len(body) > REQUEST_MAX:
            raise BadInput(f"the request is larger than {REQUEST_MAX:,} bytes; submit in parts")
        return self._ask("POST", f"/v1/{verb}", body)

    def _environment(self, env: Mapping[bytes, bytes]) -> str:
        # Cached, because it mostly stays the same and encoding takes longer than all the rest of a request.
        kept = self._encoded_env
        if kept is None or kept[0] != env:
            pairs = [[word_value(name), word_value(value)] for name, value in env.items()]
            kept = self._encoded_env = dict(env), json.dumps(pairs)
        return kept[1]

    def show(self, selectors: Iterable[str] = ()) -> Document:
        """Return jobs, queues, workers and totals."""
        return self._get("/v1/show", [("selector", each) for each in selectors])

    def jobs(self, selectors: Iterable[str] = (), **asked: object) -> Document:
        """Return one page of jobs, by selectors, or by the filters, order, limit and cursor of GET /v1/jobs."""
        return self._get("/v1/jobs", [*(("selector", each) for each in selectors), *asked.items()])

    def why(self, selectors: Iterable[str]) -> Document:
        """Explain why jobs wait, or where they are."""
        return self._get("/v1/why", [("selector", each) for each in selectors])

    def wait(self, selectors: Iterable[str], *, timeout_s: float, any_one: bool = False) -> Document:
        """Return when all jobs (or any one) are final, or after `timeout_s`, at most 30.

        Uses another connection, so that other threads can ask meanwhile.
        """
        pairs: list[tuple[str, object]] = [("selector", each) for each in selectors]
        pairs.append(("timeout_s", f"{min(max(timeout_s, 0.0), POLL_LIMIT_S):.3f}"))
        pairs.append(("any", 1 if any_one else None))
        response = exchange(self._target, "GET", "/v1/wait" + query(pairs), autostart=self.autostart)
        self._note(response)
        return read_answer(response, self.broker)

    def log(
        self,
        job: int,
        *,
        stream: str = "log",
        offset: int = 0,
        attempt: int | None = None,
        follow: bool = False,
        tail: int | None = None,
    ) -> LogStream:
        """Open a job's log on another connection; with `follow` it ends when the attempt has ended.

        If the daemon ends meanwhile, the next daemon is asked for the rest.
        """

        def ask(offset: int, attempt: int | None, tail: int | None) -> tuple[Response, Iterator[bytes], Connection]:
            pairs = [("stream", stream), ("offset", offset), ("attempt", attempt), ("tail", tail)]
            path = f"/v1/jobs/{job}/log" + query([*pairs, ("follow", int(follow))])
            # A job that waits for its turn may write nothing for days.
            return self._stream(path, None if follow else ANSWER_TIMEOUT_S)

        return LogStream(ask, offset, attempt, tail)

    def events(self, selectors: Iterable[str] = (), *, tell: Tell = lambda words: None) -> EventLines:
        """Iterate over changes of jobs as they are committed, for ever.

        A daemon that goes away is not started again but waited for, and `tell` gets a message.
        """
        chosen: list[tuple[str, object]] = [("selector", each) for each in selectors]

        def ask(since: str | None, autostart: bool) -> tuple[Iterator[bytes], Connection]:
            path = "/v1/events" + query([*chosen, ("since", since)])
            _, parts, connection = self._stream(path, SILENT_S, autostart=autostart and self.autostart)
            return parts, connection

        return EventLines(ask, tell)

    def kill(self, selectors: Iterable[str], *, grace_s: float | None = None, unstarted: bool = False) -> Document:
        """Stop running jobs, and cancel the others; with `unstarted`, only cancel jobs that have not started.

        This answer and those below have `count` and `ids` of the changed jobs, the `jobs` themselves if they are few,
        and `notes`. A kill also answers with the number of `stopping` jobs and the shortest and longest `grace_s`.
        """
        extra = {"unstarted": True} if unstarted else {}
        return self._change_jobs("kill", selectors, grace_s=grace_s, **extra)

    def rerun(self, selectors: Iterable[str], *, failed: bool = False) -> Document:
        """Submit the same jobs again, or with `failed` only the failed ones; return the new jobs."""
        return self._change_jobs("rerun", selectors, **({"failed": True} if failed else {}))

    def hold(self, selectors: Iterable[str]) -> Document:
        """Keep jobs that have not started from starting."""
        return self._change_jobs("hold", selectors)

    def release(self, selectors: Iterable[str]) -> Document:
        """Let held jobs start again."""
        return self._change_jobs("release", selectors)

    def priority(self, selectors: Iterable[str], priority: int) -> Document:
        """Set the priority; larger is sooner, 30 is neutral."""
        return self._change_jobs("priority", selectors, priority=priority)

    def clean(self, selectors: Iterable[str], *, older_s: float | None = None) -> Document:
        """Remove final jobs with their logs."""
        return self._change_jobs("clean", selectors, older_s=older_s)

    def create_queue(self, words: Iterable[bytes], *, cwd: bytes | None = None, temporary: bool = False) -> Document:
        """Make or replace a queue; the words are those of `grass create-queue`.

        A temporary queue is deleted when it has no subscriber and all its jobs have ended.
        """
        where = Sender.to(self.broker, cwd, {}).cwd
        document: Document = {"words": [word_value(each) for each in words], "cwd": word_value(where)}
        return self._change("create-queue", document | ({"temporary": True} if temporary else {}))

    def subscribe(
        self,
        queue: str,
        first_id: int = 1,
        offsets: Mapping[int, ReadTo] | None = None,
        known: Known | None = None,
    ) -> EventStream:
        """Stream what happens to a queue's jobs from an id on, and their output: an iterator of frames.

        `offsets` has (attempt, bytes read) by job id; their output continues there. `known` has the last job id the
        caller knows, and the ids up to it that have not ended; ended jobs are not reported again. The stream uses
        another connection and lasts until it is closed, also when the daemon is replaced.
        """

        def ask(
            first_id: int, offsets: Mapping[int, ReadTo], over: Sequence[tuple[int, int]]
        ) -> tuple[Iterator[bytes], Connection]:
            read = ",".join([f"{job}:{attempt}:{offset}" for job, (attempt, offset) in offsets.items()])
            ended = ",".join([f"{first}-{last}" for first, last in over])
            # Not percent-encoded: the characters are safe, and the length of a request line is limited.
            path = f"/v1/queues/{queue}/subscribe?from={first_id}&offsets={read}&over={ended}"
            _, parts, connection = self._stream(path, SILENT_S)
            return parts, connection

        return EventStream(ask, first_id, offsets or {}, known)

    def delete_queue(self, name: str, *, worker: str | None = None, at_broker: bool = False) -> Document:
        """Remove a queue of the daemon's own machine, of another worker or of the broker; running jobs finish."""
        where: Document = {} if worker is None else {"worker": worker}
        return self._change("delete-queue", {"name": name, **where, **({"at_broker": True} if at_broker else {})})

    def pause(self, queue: str | None = None) -> Document:
        """Start no new jobs in one queue, or in all."""
        return self._change("pause", {"queue": queue})

    def resume(self, queue: str | None = None, *, restored: bool = False) -> Document:
        """Start jobs again in one queue, or in all; with `restored`, no longer wait for workers after a restore."""
        return self._change("resume", {"queue": queue} | ({"restored": True} if restored else {}))

    def drain(self, worker: str, *, undo: bool = False) -> Document:
        """Start no new jobs on a worker; running jobs finish."""
        return self._change("drain", {"worker": worker, "undo": undo})

    def remove_worker(self, worker: str, *, lost: bool = False) -> Document:
        """Remove a worker and revoke its token; `lost` gives up the jobs it has."""
        return self._change("remove-worker", {"worker": worker, "lost": lost})

    def tokens(self) -> Document:
        """Return every token and code."""
        return self._get("/v1/tokens", [])

    def create_token(
        self, scope: str, *, name: str, queues: Sequence[str] | None, bare: bool, ttl_s: float
    ) -> Document:
        """Make a one-time code for `join` or `login`."""
        document = {"scope": scope, "name": name, "queues": queues, "bare": bare, "ttl_s": ttl_s}
        return self._change("tokens/create", document)

    def revoke_token(self, id_: str) -> Document:
        """Revoke a token or a code at once, on open connections too."""
        return self._change("tokens/revoke", {"id": id_})

    def audit(self, *, last: int | None = None) -> Document:
        """Return the newest entries of the audit."""
        return self._get("/v1/audit", [("last", last)])

    def info(self) -> Document:
        """Return what the daemon reports about itself."""
        return self._get("/v1/info", [])

    def stop(self) -> Document:
        """Stop the daemon; jobs run on."""
        return self._ask("POST", "/v1/stop", b"{}")

    def _change_jobs(self, verb: str, selectors: Iterable[str], **extra: object) -> Document:
        return self._change(f"jobs/{verb}", {"selectors": list(selectors), **extra})

    def _change(self, verb: str, document: Document) -> Document:
        body = json.dumps({**document, "key": new_key()}).encode("ascii")
        return self._ask("POST", f"/v1/{verb}", body)

    def _get(self, path: str, pairs: Iterable[tuple[str, object]]) -> Document:
        return self._ask("GET", path + query(pairs))

    def _ask(self, method: str, path: str, body: bytes = b"") -> Document:
        with self._lock:
            response = persist(lambda: self._once(method, path, body), self._target, autostart=self.autostart)
        self._note(response)
        return read_answer(response, self.broker)

    def _stream(
        self, path: str, timeout_s: float | None, *, autostart: bool | None = None
    ) -> tuple[Response, Iterator[bytes], Connection]:
        def ask() -> tuple[Response, Iterator[bytes], Connection]:
            connection = Connection(self._target, timeout_s=timeout_s)
            try:
                response, parts = connection.stream(path)
                if response.status != 200:
                    response.body = b"".join(bounded(parts))
                    raise _failure(response, self.broker)
            except BaseException:
                connection.close()
                raise
            return response, parts, connection

        autostart = self.autostart if autostart is None else autostart
        response, parts, connection = persist(ask, self._target, autostart=autostart)
        self._note(response)
        return response, parts, connection

    def _once(self, method: str, path: str, body: bytes) -> Response:
        connection = self._connection
        if connection is None:
            connection = self._connection = Connection(self._target)
        try:
            response = connection.request(method, path, body, keep=True)
        except BaseException:
            self._drop()
            raise
        if not connection.reusable:
            self._drop()
        return response

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _forked(self) -> None:
        # Both processes would read from one connection, and a thread of the parent may hold the lock.
        self._lock = threading.Lock()
        self._drop()

    def _note(self, response: Response) -> None:
        self.daemon_version = response.headers.get("grass-version", self.daemon_version)


_clients: weakref.WeakSet[ApiClient] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._forked()


os.register_at_fork(after_in_child=_after_fork)


def compact(ids: Iterable[int], *, limit: int = 4000) -> list[str]:
    """Return ids as selectors (`3-7,9`), each short enough for one request line."""
    selectors: list[str] = []
    for first, last in id_ranges(sorted(set(ids))):
        text = str(first) if first == last else f"{first}-{last}"
        if selectors and len(selectors[-1]) + len(text) < limit:
            selectors[-1] += "," + text
        else:
            selectors.append(text)
    return selectors


def read_answer(response: Response, broker: str | None = None) -> Document:
    """Return the document in an answer, or raise the error it reports."""
    if response.status != 200:
        raise _failure(response, broker)
    document = _parse(response)
    if document is not None and "error" in document:
        # The daemon failed after it had begun to answer.
        raise _failure(response, broker)
    if document is None:
        advice = "try `grass restart`" if broker is None else "ask its owner"
        raise Unreachable(f"the daemon's answer cannot be read; is it another version? {advice}")
    return document


def _find_broker(home: str, text: str, tell: Tell | None) -> Target:
    from grassq.net.broker import open_broker

    broker = open_broker(home, text)
    broker.tell = tell
    return broker


def _failure(response: Response, broker: str | None) -> GrassError:
    document = _parse(response) or {}
    error = document.get("error")
    if isinstance(error, dict):
        code = error.get("exit", 1)
        kind = ERRORS.get(code, GrassError) if isinstance(code, int) else GrassError
        if kind is Refused and response.status == NOT_NOW:
            kind = StoreUnavailable
        return kind(str(error.get("message", f"the daemon answered {response.status}")))
    if broker is None:
        return Unreachable(f"the daemon answered {response.status} without a reason; `grass restart` (jobs run on)")
    if response.status in (401, 403):
        return Refused(f"{broker} denies you access ({response.status}); `grass login` with a new code")
    return Unreachable(f"{broker} answered {response.status} without a reason; is it a Grass broker?")


def _parse(response: Response) -> Document | None:
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
