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
#: Seconds a broker on another machine may be away, because it restarts or another broker takes over.
AWAY_S = 30.0
AWAY_PAUSE_S = 0.1
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
    """Call `ask` until it returns: at most TRIES broken connections to a daemon, or AWAY_S seconds for a broker."""
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
        try:
            return ask()
        except (NoDaemon, Broken) as error:
            now = monotonic()
            if not deadline:
                # Counted from the first failure: the request before it may have taken long.
                deadline = now + AWAY_S
            elif now + pause > deadline:
                raise Unreachable(f"the broker {broker} does not answer ({error}); tried for {AWAY_S:g} s") from error
            elif broker.tell is not None:
                # Not at the first failure: usually the broker closed an idle connection.
                tell, broker.tell = broker.tell, None
                tell(f"the broker {broker} does not answer; asking again for up to {AWAY_S:g} s")
        sleep(pause)
        pause = min(2 * pause, AWAY_PAUSE_MAX_S)
