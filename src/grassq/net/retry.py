"""One request that survives an absent, restarting or dying daemon: it is repeated unchanged, with the same key."""

from __future__ import annotations

from time import monotonic, sleep

from grassq.errors import Unreachable
from grassq.net.http import ANSWER_TIMEOUT_S, Broken, Connection, NoDaemon, Response, bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from grassq.net.broker import Broker
    from grassq.net.http import Target

    Answer = TypeVar("Answer")

TRIES = 3
TRIES_WITHIN_S = 10.0
#: Seconds a broker on another machine may be away unless the caller says otherwise: it restarts, another broker takes
#: over, or its store is away.
AWAY_S = 30.0
AWAY_PAUSE_S = 0.1
#: The status of a refusal because the store cannot be read or written, whatever was asked; with the header, the same
#: request may succeed later.
NOT_NOW = 503
RETRY_HEADER = "retry-after"
AWAY_PAUSE_MAX_S = 0.5


def exchange(target: Target, method: str, path: str, body: bytes = b"", *, autostart: bool = True) -> Response:
    """Send one request on its own connection; start this machine's daemon if none answers."""

    def ask() -> Response:
        connection = Connection(target)
        try:
            return connection.request(method, path, body)
        finally:
            connection.close()

    return persist(ask, target, autostart=autostart)


def fetch(
    target: Target, path: str, *, autostart: bool = True, timeout_s: float | None = ANSWER_TIMEOUT_S
) -> tuple[Response, Iterator[bytes] | None, Connection]:
    """GET an answer whole, or, if it is written in parts, its head, its bytes as they come, and its open connection.

    A connection that breaks before the head is tried again; Broken is raised if the end of the bytes is missing.
    """

    def ask() -> tuple[Response, Iterator[bytes] | None, Connection]:
        connection = Connection(target, timeout_s=timeout_s)
        try:
            response, parts = connection.stream(path)
            if response.status == 200 and "transfer-encoding" in response.headers:
                return response, parts, connection
            response.body = b"".join(bounded(parts))
        except BaseException:
            connection.close()
            raise
        connection.close()
        return response, None, connection

    return persist(ask, target, autostart=autostart)


def persist(ask: Callable[[], Answer], target: Target, *, autostart: bool = True) -> Answer:
    """Call `ask` until it returns: at most TRIES broken connections to a daemon, or `away_s` seconds for a broker."""
    if not isinstance(target, str):
        return _ask_broker(ask, target)
    home = target
    deadline = monotonic() + TRIES_WITHIN_S
    starts = breaks = 0
    while True:
        try:
            return ask()
        except NoDaemon as error:
            starts += 1
            if not autostart:
                raise Unreachable(f"no daemon runs in {home}; `grass start` starts one") from error
            if starts > TRIES:
                raise Unreachable(f"a daemon starts in {home} but goes away again; see {home}/daemon.log") from error
            from grassq.net.autostart import start

            start(home)
        except Broken as error:
            breaks += 1
            if breaks >= TRIES or monotonic() > deadline:
                raise Unreachable(f"{error}; tried {breaks} times; see {home}/daemon.log") from error
            # No pause before the first repeat: usually the daemon closed an idle connection.
            sleep(0.2 * (breaks - 1))


def _ask_broker(ask: Callable[[], Answer], broker: Broker) -> Answer:
    deadline, pause = 0.0, AWAY_PAUSE_S
    while True:
        answer, error = None, None
        try:
            answer = ask()
        except (NoDaemon, Broken) as failure:
            error = failure
        if answer is not None and not _is_not_now(answer):
            return answer
        now = monotonic()
        if not deadline:
            # Counted from the first failure: the request before it may have taken long.
            deadline = now + broker.away_s
        elif now + pause > deadline:
            if answer is not None:
                return answer  # it says why the store is away
            tried = f"tried for {broker.away_s:g} s"
            raise Unreachable(f"the broker {broker} does not answer ({error}); {tried}") from error
        elif broker.tell is not None:
            # Not at the first failure: usually the broker closed an idle connection.
            tell, broker.tell = broker.tell, None
            what = "does not answer" if answer is None else "cannot use its store now"
            until = "for as long as it takes" if broker.away_s == float("inf") else f"for up to {broker.away_s:g} s"
            tell(f"the broker {broker} {what}; asking again {until}")
        sleep(pause)
        pause = min(2 * pause, AWAY_PAUSE_MAX_S)


def _is_not_now(answer: object) -> bool:
    """Tell whether a broker asks to come again later, because its store is away."""
    response = answer[0] if isinstance(answer, tuple) else answer
    return isinstance(response, Response) and response.status == NOT_NOW and RETRY_HEADER in response.headers
