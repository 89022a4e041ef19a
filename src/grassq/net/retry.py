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
#: Seconds a broker on another machine may be away, because it restarts or another one takes over.
AWAY_S = 30.0
AWAY_PAUSE_S = 0.1
AWAY_PAUSE_MAX_S = 0.5


def exchange(
    place: Target,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    autostart: bool = True,
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Response:
    """Send one request on a connection of its own; start this machine's daemon if none answers."""

    def ask() -> Response:
        connection = Connection(place, timeout_s=timeout_s)
        try:
            return connection.request(method, target, body)
        finally:
            connection.close()

    return persist(ask, place, autostart=autostart)


def fetch(place: Target, target: str) -> tuple[Response, Iterator[bytes] | None]:
    """GET an answer: whole, or, if it is written bit by bit, its head and its bytes as they come.

    A connection that breaks before the head is tried again; Broken is raised if the end of the bytes is missing.
    """

    def ask() -> tuple[Response, Iterator[bytes] | None]:
        connection = Connection(place)
        try:
            response, parts = connection.stream(target)
            if response.status == 200 and "transfer-encoding" in response.headers:
                return response, _to_the_end(connection, parts)
            response.body = b"".join(bounded(parts))
        except BaseException:
            connection.close()
            raise
        connection.close()
        return response, None

    return persist(ask, place)


def _to_the_end(connection: Connection, parts: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from parts
    finally:
        connection.close()


def persist(ask: Callable[[], Answer], place: Target, *, autostart: bool = True) -> Answer:
    """Call `ask` until it is answered: at most three broken connections in ten seconds, a broker for half a minute."""
    if not isinstance(place, str):
        return _seek(ask, place)
    home = place
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
            # Not before the first repeat: usually an idle connection was closed by the daemon.
            sleep(0.2 * (breaks - 1))


def _seek(ask: Callable[[], Answer], broker: Broker) -> Answer:
    deadline, pause = 0.0, AWAY_PAUSE_S
    while True:
        try:
            return ask()
        except (NoDaemon, Broken) as error:
            now = monotonic()
            if not deadline:
                # Counted from the first failure: before that the daemon may have been answering for long.
                deadline = now + AWAY_S
            elif now + pause > deadline:
                raise Unreachable(f"the broker {broker} does not answer ({error}); tried for {AWAY_S:g} s") from error
            elif broker.tell is not None:
                # Not at the first failure: usually an idle connection was closed by the broker.
                tell, broker.tell = broker.tell, None
                tell(f"the broker {broker} does not answer; asking again for up to {AWAY_S:g} s")
        sleep(pause)
        pause = min(2 * pause, AWAY_PAUSE_MAX_S)
