"""One request that survives a daemon which is absent, restarting or dying: repeated as it is, so with the same key."""

from __future__ import annotations

from time import monotonic, sleep

from grassq.errors import Unreachable
from grassq.net.http import ANSWER_TIMEOUT_S, Broken, Connection, NoDaemon, Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Answer = TypeVar("Answer")

TRIES = 3
TRIES_WITHIN_S = 10.0


def exchange(
    home: str,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    autostart: bool = True,
    timeout_s: float | None = ANSWER_TIMEOUT_S,
) -> Response:
    """Send one request on a connection of its own, starting the daemon if none answers."""

    def ask() -> Response:
        connection = Connection(home, timeout_s=timeout_s)
        try:
            return connection.request(method, target, body)
        finally:
            connection.close()

    return persist(ask, home, autostart=autostart)


def persist(ask: Callable[[], Answer], home: str, *, autostart: bool = True) -> Answer:
    """Call `ask` until it is answered: at most three broken connections in ten seconds."""
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
            from grassq.net.start import start

            start(home)
        except Broken as error:
            breaks += 1
            if breaks >= TRIES or monotonic() > deadline:
                raise Unreachable(f"{error}; tried {breaks} times; see {home}/daemon.log") from error
            # Not before the first repeat: mostly it is an idle connection that the daemon had closed.
            sleep(0.2 * (breaks - 1))
