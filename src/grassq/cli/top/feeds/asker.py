"""The daemon or broker that `top` looks at, and the threads that ask it: of each question only the latest waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from grassq.errors import GrassError, Unreachable
from grassq.net.client import ApiClient
from grassq.net.encoding import query
from grassq.net.http import Connection, Response
from grassq.net.retry import fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.net.http import Target

#: Seconds a broker may be away before a request fails; what asks again is the thread.
AWAY_S = 1.0
#: Seconds until a daemon that is away is asked again: at first, and at most.
RETRY_S, RETRY_MAX_S = 0.5, 5.0
#: Kinds of questions that may wait at a time; another kind is a mistake in this program.
QUESTIONS_MAX = 16


class Daemon:
    """How to reach the daemon of a home, or a broker. Never starts a daemon: `top` only looks until it is told to."""

    def __init__(self, home: str, broker: str | None) -> None:
        self.home = home
        self.broker = broker
        self._target: Target = home
        if broker is not None:
            from grassq.net.broker import open_broker

            self._target = open_broker(home, broker, None, AWAY_S)

    def client(self) -> ApiClient:
        """Return a client; each thread has its own."""
        return ApiClient(self.home, autostart=False, broker=self.broker, away_s=AWAY_S)

    def stream(
        self, path: str, asked: list[tuple[str, object]], timeout_s: float | None
    ) -> tuple[Response, Iterator[bytes], Connection]:
        """Open an answer that comes in parts; raise Unreachable or the reason of a refusal."""
        response, parts, connection = fetch(self._target, path + query(asked), autostart=False, timeout_s=timeout_s)
        if response.status != 200:
            from grassq.net.client import read_answer

            read_answer(response, self.broker)
            raise Unreachable(f"the daemon answered {response.status}")
        return response, iter([response.body]) if parts is None else parts, connection


class Answered(NamedTuple):
    """The answer to a question, or the error."""

    kind: str
    value: Any
    error: GrassError | None


#: Asks the daemon something.
Question = Callable[[ApiClient], Any]
#: Takes an answer; called by the thread that asked.
Tell = Callable[[Answered], None]


class Background(threading.Thread):
    """A thread whose unexpected errors end the program with a message instead of vanishing."""

    def __init__(self, name: str, failed: Callable[[Exception], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._failed = failed

    def run(self) -> None:
        """Work until told to stop."""
        try:
            self.work()
        except Exception as error:
            self._failed(error)

    def work(self) -> None:
        """Do what the thread is for."""
        raise NotImplementedError


class Asker(Background):
    """Asks questions one after the other. A newer question of the same kind replaces one that still waits."""

    def __init__(self, name: str, daemon: Daemon, tell: Tell, failed: Callable[[Exception], None]) -> None:
        super().__init__(name, failed)
        self._daemon = daemon
        self._tell = tell
        self._waiting: dict[str, Question] = {}
        self._changed = threading.Condition()
        self._is_over = False
        #: What the caller may do there, as the last answer said: `read`, `submit` or `admin`.
        self.scope = ""

    def ask(self, kind: str, question: Question) -> None:
        """Ask soon; never waits."""
        with self._changed:
            if kind in self._waiting or len(self._waiting) < QUESTIONS_MAX:
                self._waiting[kind] = question
                self._changed.notify()

    def close(self) -> None:
        """Ask nothing more."""
        with self._changed:
            self._is_over = True
            self._waiting.clear()
            self._changed.notify()

    def work(self) -> None:
        """Ask until closed."""
        with self._daemon.client() as client:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._is_over)
                    if self._is_over:
                        return
                    kind = next(iter(self._waiting))
                    question = self._waiting.pop(kind)
                value, error = None, None
                try:
                    value = question(client)
                    self.scope = client.headers.get("grass-scope", "")
                except GrassError as raised:
                    error = raised
                if not self._is_over:
                    self._tell(Answered(kind, value, error))
