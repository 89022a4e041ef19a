"""Requests to a daemon and its answers; documents in, documents out."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import sleep
from typing import TYPE_CHECKING, Any

from grassq import atomic_files
from grassq import home as homes
from grassq.core.printable import printable
from grassq.core.syntax.numbers import id_ranges
from grassq.core.syntax.shell_lines import REMOTE_LINES_MAX
from grassq.errors import BadInput, GrassError, Refused, StoreUnavailable, Unreachable
from grassq.home import Sender
from grassq.net.encoding import FINAL_STATES, new_key, parse, percent, query, word_value
from grassq.net.event_stream import SILENT_S, EventStream, Known, event_lines, read_frames
from grassq.net.event_stream import Place as ReadTo
from grassq.net.http import ANSWER_TIMEOUT_S, ERRORS, Connection, Response, is_number
from grassq.net.log_stream import LogStream
from grassq.net.retry import AWAY_S, NOT_NOW, exchange, fetch, persist

if TYPE_CHECKING:
    from grassq.net.http import Target

#: The longest time, in seconds, until the daemon answers a long poll.
POLL_LIMIT_S = 30.0
#: `wait` asks about at most this many jobs per request, because the answer lists each one.
WAIT_AT_ONCE = 10_000
#: `Client.submit_many` sends a broker on another machine at most this many jobs per request.
SUBMIT_AT_ONCE = REMOTE_LINES_MAX
#: The message about a selector that names several jobs counts up to this many.
JOBS_COUNTED = 100
#: Seconds until a log is asked for again that ended before its job.
ASK_AGAIN_S = 0.5
#: The longest time, in seconds, until `glance` gives up.
GLANCE_S = 1.0
#: The longest time, in seconds, of one step of a machine's test.
TEST_STEP_S = 180.0
#: The longest message of a refusal, in characters.
MESSAGE_MAX = 4000
#: The largest request a daemon takes.
REQUEST_MAX = 64 << 20

Document = dict[str, Any]
#: A line, or a program and its words.
Command = Any
Tell = Callable[[str], None]


class ApiClient:
    """A sync client of one home's daemon, or of a broker. Keeps one connection open, for threads too; survives a fork.

    Nothing of this machine is sent to a broker on another machine: no environment, no directory, no umask.
    """

    def __init__(
        self,
        home: str | None = None,
        *,
        autostart: bool = True,
        broker: str | None = None,
        tell: Tell | None = None,
        away_s: float = AWAY_S,
    ) -> None:
        """`away_s` is how long a broker may be away before a request fails."""
        self.home = home if home is not None else homes.current()
        #: The addresses of the broker asked; None for the home's own daemon.
        self.broker = broker
        self.autostart = autostart
        self._tell = tell
        self._target: Target = self.home
        if broker is not None:
            from grassq.net.broker import open_broker

            self._target = open_broker(self.home, broker, tell, away_s)
        #: The headers of the last answer; `grass-version` is the daemon's version.
        self.headers: Mapping[str, str] = {}
        self._connection: Connection | None = None
        self._encoded_env: tuple[dict[bytes, bytes], str] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._own_lock():
            self._drop()

    def submit(
        self,
        jobs: Sequence[Document],
        sender: Sender | None = None,
        *,
        key: str | None = None,
        wait_for_queue: bool = True,
    ) -> Document:
        """Store jobs, all or none; ids in the order given. `sender` is this process if it is not given."""
        return self._submit("submit", {"jobs": list(jobs), "wait_for_queue": wait_for_queue}, sender, key)

    def submit_many(
        self,
        commands: Sequence[Command],
        job: Document,
        sender: Sender | None = None,
        *,
        key: str | None = None,
        wait_for_queue: bool = True,
        parameters: Mapping[str, Sequence[str]] | None = None,
        more: Document | None = None,
        dry_run: bool = False,
    ) -> Document:
        """Store a job for each command, all or none, or only ask; `job` has the common options, ids are consecutive.

        `parameters` has, by name, the value of each parameter of a sweep in each command. `more` has `sweep`, `array`
        or `each`.
        """
        document = {"job": job, "commands": commands, "wait_for_queue": wait_for_queue}
        document |= ({"parameters": parameters} if parameters else {}) | (more or {})
        return self._submit("dry-run" if dry_run else "submit-many", document, sender, key)

    def _submit(self, verb: str, document: Document, sender: Sender | None, key: str | None) -> Document:
        if sender is None or self.broker is not None:
            sender = Sender.to(self.broker)
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
        return self.get("show", selectors)

    def jobs(self, selectors: Iterable[str] = (), **asked: object) -> Document:
        """Return one page of jobs, by selectors, or by the filters, order, limit and cursor of GET /v1/jobs."""
        return self.get("jobs", selectors, **asked)

    def one_job(self, selector: str) -> Document:
        """Return the job that a selector names; raise BadInput unless it is exactly one."""
        answer = self.jobs([selector], limit=JOBS_COUNTED)
        jobs: list[Document] = answer["jobs"]
        if len(jobs) != 1:
            count = f"more than {len(jobs)}" if answer.get("more") else str(len(jobs))
            raise BadInput(f"'{selector}' names {count} jobs; name one")
        return jobs[0]

    def glance(self, selectors: Iterable[str], limit: int) -> list[Document]:
        """Return jobs if the daemon answers at once: one try on another connection, and no daemon is started."""
        pairs: list[tuple[str, object]] = [("selector", each) for each in selectors]
        connection = Connection(self._target, timeout_s=GLANCE_S)
        try:
            response = connection.request("GET", "/v1/jobs" + query([*pairs, ("limit", limit)]))
        finally:
            connection.close()
        jobs: list[Document] = read_answer(response, self.broker)["jobs"]
        return jobs

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
            path = f"/v1/jobs/{job}/log" + query([*pairs, ("follow", int(follow)), ("resume", 1)])
            # A job that waits for its turn may write nothing for days.
            return self._stream(path, None if follow else ANSWER_TIMEOUT_S)

        return LogStream(ask, offset, attempt, tail)

    def follow(
        self, job: int, *, stream: str = "log", attempt: int | None = None, tail: int | None = None
    ) -> Iterator[bytes]:
        """Yield a job's log as it is written, until the job or the given attempt ends; attempts follow each other."""
        log = self.log(job, stream=stream, attempt=attempt, follow=True, tail=tail)
        while True:
            yield from log
            document = self.one_job(str(job))
            if attempt is None and int(document.get("attempt") or 0) > log.attempt:
                log = self.log(job, stream=stream, attempt=log.attempt + 1, follow=True)
                continue
            if attempt is not None or document.get("state") in FINAL_STATES:
                return
            sleep(ASK_AGAIN_S)  # the daemon ended the log before the job ended: ask for the rest
            log = self.log(job, stream=stream, offset=log.offset, attempt=log.attempt, follow=True)

    def ends(self) -> tuple[Iterator[Document], Connection]:
        """Open a stream of the ends of all jobs, on another connection: `subscribed`, then a line for each end.

        The lines end, or raise Unreachable, when the connection does. `reread` says that ends were missed.
        """
        _, parts, connection = self._stream("/v1/events?ended=1", SILENT_S)
        return (line for line, _ in read_frames(parts)), connection

    def events(self, selectors: Iterable[str] = ()) -> Iterator[Document]:
        """Iterate over changes of jobs as they are committed, for ever.

        A daemon that goes away is not started again but waited for, and `tell` gets a message.
        """
        chosen: list[tuple[str, object]] = [("selector", each) for each in selectors]

        def ask(since: str | None, autostart: bool) -> tuple[Iterator[bytes], Connection]:
            path = "/v1/events" + query([*chosen, ("since", since)])
            _, parts, connection = self._stream(path, SILENT_S, autostart=autostart)
            return parts, connection

        return event_lines(ask, self._tell or (lambda words: None))

    def kill(self, selectors: Iterable[str], *, grace_s: float | None = None, unstarted: bool = False) -> Document:
        """Stop running jobs, and cancel the others; with `unstarted`, only cancel jobs that have not started."""
        return self.change("jobs/kill", selectors=list(selectors), grace_s=grace_s, unstarted=unstarted)

    def create_queue(self, words: Iterable[bytes], *, cwd: bytes | None = None, temporary: bool = False) -> Document:
        """Make or replace a queue; the words are those of `grass create-queue`.

        A temporary queue is deleted when it has no subscriber and all its jobs have ended.
        """
        where = word_value(Sender.to(self.broker, cwd).cwd)
        return self.change("create-queue", words=[word_value(each) for each in words], cwd=where, temporary=temporary)

    def subscribe(self, queue: str, known: Known) -> EventStream:
        """Stream what happens to a queue's jobs, and their output: an iterator of frames.

        `known` returns the last job id the caller knows, and the ids up to it that have not ended; ended jobs are not
        reported again. The stream uses another connection and lasts until it is closed, also when the daemon is
        replaced.
        """

        def ask(offsets: Mapping[int, ReadTo], over: Sequence[tuple[int, int]]) -> tuple[Iterator[bytes], Connection]:
            read = ",".join([f"{job}:{attempt}:{offset}" for job, (attempt, offset) in offsets.items()])
            ended = ",".join([f"{first}-{last}" for first, last in over])
            # Only the name is percent-encoded: the other characters are safe, and a request line must be short.
            path = f"/v1/queues/{percent(queue)}/subscribe?offsets={read}&over={ended}"
            _, parts, connection = self._stream(path, SILENT_S)
            return parts, connection

        return EventStream(ask, known)

    def machine_test(self, name: str, agent: str | None) -> Iterator[Document]:
        """Test a machine over ssh and yield each step: `step`, `ok` (None for a remark) and `words`."""
        path = f"/v1/machines/{percent(name)}/test" + query([("agent", agent)])
        response, parts, connection = self._stream(path, TEST_STEP_S)
        try:
            for line, _ in read_frames(parts):
                if isinstance(line.get("error"), dict):
                    raise _told(line["error"], response.status)
                if "ended" in line:
                    return
                yield line
        finally:
            connection.close()
        raise Unreachable("the daemon ended before the test did; `grass machine list` shows the state")

    def machine(self, name: str) -> Document:
        """Return a machine over ssh: as `list` has it, its definition, and the `argv` that logs in there."""
        return self.get(f"machines/{percent(name)}/about")

    def info(self) -> Document:
        """Return what the daemon reports about itself."""
        return self.get("info")

    def stop(self) -> Document:
        """Stop the daemon; jobs run on."""
        return self._ask("POST", "/v1/stop", b"{}")

    def get(self, what: str, selectors: Iterable[str] = (), **asked: object) -> Document:
        """Return the answer to GET /v1/WHAT; what is None is not asked."""
        return self._ask("GET", f"/v1/{what}" + query([*(("selector", each) for each in selectors), *asked.items()]))

    def change(self, action: str, **values: object) -> Document:
        """Carry out POST /v1/ACTION, once, with these values; None and False are left out.

        An action on jobs, such as `jobs/hold`, takes `selectors`, and answers with `count` and `ids` of the changed
        jobs, the `jobs` themselves if they are few, and `notes`. A kill also answers with the number of `stopping` jobs
        and the shortest and longest `grace_s`.
        """
        document = {name: value for name, value in values.items() if value is not None and value is not False}
        return self._ask("POST", f"/v1/{action}", json.dumps({**document, "key": new_key()}).encode("ascii"))

    def enqueue(self, body: bytes) -> Response:
        """Carry out POST /v1/enqueue, whose answer `read_printed` reads."""
        return self._exchange("POST", "/v1/enqueue", body)

    def _ask(self, method: str, path: str, body: bytes = b"") -> Document:
        return read_answer(self._exchange(method, path, body), self.broker)

    def _exchange(self, method: str, path: str, body: bytes) -> Response:
        with self._own_lock():
            response = persist(lambda: self._once(method, path, body), self._target, autostart=self.autostart)
        self._note(response)
        return response

    def stream(self, path: str, timeout_s: float) -> tuple[Iterator[bytes], Connection]:
        """Open an answer that comes in parts, on another connection."""
        _, parts, connection = self._stream(path, timeout_s)
        return parts, connection

    def _stream(
        self, path: str, timeout_s: float | None, *, autostart: bool = True
    ) -> tuple[Response, Iterator[bytes], Connection]:
        response, parts, connection = fetch(
            self._target, path, autostart=autostart and self.autostart, timeout_s=timeout_s
        )
        self._note(response)
        if response.status != 200:
            raise _failure(response, self.broker)
        return response, iter([response.body]) if parts is None else parts, connection

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

    def _own_lock(self) -> threading.Lock:
        if self._pid != os.getpid():
            # After a fork both processes would read from one connection, and a thread of the parent may hold the lock.
            self._lock, self._pid = threading.Lock(), os.getpid()
            self._drop()
        return self._lock

    def _note(self, response: Response) -> None:
        self.headers = response.headers


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
    document = atomic_files.parse(response.body)
    if document is not None and "error" in document:
        # The daemon failed after it had begun to answer.
        raise _failure(response, broker)
    if document is None:
        advice = "try `grass restart`" if broker is None else "ask its owner"
        raise Unreachable(f"the daemon's answer cannot be read; is it another version? {advice}")
    return document


def read_printed(response: Response, broker: str | None = None) -> tuple[Mapping[str, str], Any, str]:
    """Return headers, the JSON and the messages that a command would print, or raise the error that it would report."""
    headers = response.headers
    code, length = headers.get("grass-exit", ""), headers.get("grass-stdout", "")
    if not is_number(code) or not is_number(length):
        read_answer(response, broker)  # raises the daemon's error
        raise Unreachable("the daemon's answer cannot be read; is it another version?")
    out, said = response.body[: int(length)], response.body[int(length) :].decode("utf-8", "replace")
    if not out:
        raise _told({"exit": int(code), "message": said.strip().removeprefix("grass: ")}, response.status)
    try:
        return headers, parse(out), said
    except ValueError:
        raise Unreachable("the daemon's answer cannot be read; is it another version?") from None


def _failure(response: Response, broker: str | None) -> GrassError:
    document = atomic_files.parse(response.body) or {}
    error = document.get("error")
    if isinstance(error, dict):
        return _told(error, response.status)
    if broker is None:
        return Unreachable(
            f"the daemon answered {response.status} without a reason; `grass restart` (jobs keep running)"
        )
    if response.status in (401, 403):
        return Refused(f"{broker} denies you access ({response.status}); `grass login` with a new code")
    return Unreachable(f"{broker} answered {response.status} without a reason; is it a Grass broker?")


def _told(error: Mapping[str, Any], status: int) -> GrassError:
    """Return the error that a daemon describes."""
    code = error.get("exit", 1)
    kind = ERRORS.get(code, GrassError) if isinstance(code, int) else GrassError
    if kind is Refused and status == NOT_NOW:
        kind = StoreUnavailable
    # A program may print the message, and what answers may be in the wrong hands.
    return kind(printable(str(error.get("message", f"the daemon answered {status}")), MESSAGE_MAX))
