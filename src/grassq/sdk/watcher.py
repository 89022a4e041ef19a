"""Ends of jobs, heard on one stream for a whole client: one thread, however many jobs are watched.

The thread starts with the first job that is watched. It opens the stream, looks at every watched job, and then hears of
ends. When the stream breaks, it opens another and looks again, so an end during a restart of the daemon is found too.
The thread ends when nothing is watched for some seconds. It never keeps a program from ending. What is kept is bounded
by the jobs that the program watches: each of them ends once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from grassq.errors import GrassError, NotFound, Refused, Unreachable
from grassq.net.client import ApiClient, compact
from grassq.net.encoding import FINAL_STATES
from grassq.net.event_stream import AWAY_MAX_S, AWAY_S
from grassq.net.http import Connection

#: Jobs in one request; a request line has a limit, and the answer has a document for each job.
LOOK_AT_ONCE = 500

Document = dict[str, Any]


class Listener(Protocol):
    """Hears of watched jobs. The calls come from another thread and must not wait for jobs."""

    def ended(self, job: int, info: Document | None) -> None:
        """Hear that a job has ended, with what is known of it; None if it was removed."""

    def failed(self, error: GrassError, *, for_good: bool) -> None:
        """Hear that the daemon could not be asked; `for_good` if it will not be asked again."""


class EndWatcher:
    """Watches jobs of one client. Belongs to one process: a forked child makes another."""

    def __init__(self, api: ApiClient) -> None:
        self.pid = os.getpid()
        self._api = api
        self._lock = threading.Lock()
        self._listeners: dict[int, list[Listener]] = {}
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        #: Whether every end from now on is heard.
        self._is_live = False
        self._closed = threading.Event()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is a callback on the watching thread, which hears nothing while it waits."""
        return threading.current_thread() is self._thread

    def watch(self, jobs: Iterable[int], listener: Listener) -> None:
        """Tell the listener when each of these jobs ends, also if a job has ended already."""
        ids = list(jobs)
        with self._lock:
            if self._closed.is_set():
                raise closed_error()
            for id_ in ids:
                self._listeners.setdefault(id_, []).append(listener)
            is_live = self._is_live
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="grassq-ends", daemon=True)
                self._thread.start()
        if is_live:
            # If the stream is opened only later, the thread looks at these jobs too.
            try:
                self._look(ids)
            except GrassError:
                self.unwatch(ids, listener)
                raise

    def unwatch(self, jobs: Iterable[int], listener: Listener) -> None:
        """Stop telling the listener of these jobs."""
        with self._lock:
            for id_ in jobs:
                others = [each for each in self._listeners.pop(id_, ()) if each is not listener]
                if others:
                    self._listeners[id_] = others

    def close(self) -> None:
        """End the stream and the thread, and tell every listener that nothing more is heard."""
        with self._lock:
            self._closed.set()
            connection, listeners = self._connection, self._all_listeners()
            self._listeners.clear()
        if connection is not None:
            connection.interrupt()
        for listener in listeners:
            listener.failed(closed_error(), for_good=True)

    def fetch(self, jobs: Iterable[int]) -> Iterator[tuple[int, Document | None]]:
        """Yield each job as it is now, in order of id; None for a job that was removed."""
        ids = sorted(jobs)
        for at in range(0, len(ids), LOOK_AT_ONCE):
            some = ids[at : at + LOOK_AT_ONCE]
            found: dict[int, Document] = {}
            for selector in compact(some):
                try:
                    answer = self._api.jobs([selector], limit=LOOK_AT_ONCE)
                except NotFound:
                    continue
                found |= {int(info["id"]): info for info in answer["jobs"]}
            yield from ((id_, found.get(id_)) for id_ in some)

    def _look(self, jobs: Iterable[int]) -> None:
        for id_, info in self.fetch(jobs):
            if info is None or info.get("state") in FINAL_STATES:
                self._tell(id_, info)

    def _tell(self, job: int, info: Document | None) -> None:
        with self._lock:
            listeners = self._listeners.pop(job, ())
        for listener in listeners:
            listener.ended(job, info)

    def _run(self) -> None:
        pause_s = AWAY_S
        while self._is_needed():
            try:
                self._listen()
                pause_s = AWAY_S
            except GrassError as error:
                self._fail(error)
                pause_s = min(2 * pause_s, AWAY_MAX_S)
            except (LookupError, TypeError, ValueError):
                self._fail(Unreachable("what the daemon tells of ends cannot be read; is its version another one?"))
                pause_s = AWAY_MAX_S
            self._closed.wait(pause_s if self._listeners else 0)

    def _fail(self, error: GrassError) -> None:
        with self._lock:
            listeners = self._all_listeners()
        for listener in listeners:
            listener.failed(error, for_good=False)

    def _is_needed(self) -> bool:
        with self._lock:
            if self._listeners and not self._closed.is_set():
                return True
            self._thread = None
            return False

    def _listen(self) -> None:
        """Hear of ends until the stream breaks, or nothing is watched."""
        lines, connection = self._api.ends()
        with self._lock:
            self._connection = connection
        try:
            while not self._closed.is_set() and (line := _next(lines)) is not None:
                event = line.get("event")
                if event in ("subscribed", "reread"):
                    with self._lock:
                        self._is_live, watched = True, list(self._listeners)
                    self._look(watched)
                elif event == "heartbeat":
                    if not self._listeners:
                        return
                elif line.get("state") in FINAL_STATES and event != "removed":
                    self._tell(int(line["job"]), {"state": line["state"]})
        finally:
            with self._lock:
                self._is_live, self._connection = False, None
            connection.close()

    def _all_listeners(self) -> list[Listener]:
        return list({id(each): each for some in self._listeners.values() for each in some}.values())


def closed_error() -> Refused:
    """Return the error of a client that was closed."""
    return Refused("this client is closed; grassq.Client() opens another, and the jobs are not changed")


def _next(lines: Iterator[Document]) -> Document | None:
    try:
        return next(lines, None)
    except Unreachable:
        return None  # the stream broke: the next one begins with a look
