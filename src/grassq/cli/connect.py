"""Opens the client of one command: to this user's daemon or to a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grassq import home as homes
from grassq.cli.fast import complain, current_home, warn
from grassq.net.client import ApiClient


@contextmanager
def connect(typed: str | None = None, *, local: bool = False) -> Iterator[ApiClient]:
    """Yield a client of the broker that --broker, GRASS_BROKER or `grass use` names, else of the local daemon."""
    home = current_home()
    broker = None if local else homes.broker(home, typed)
    with ApiClient(home, broker=broker, tell=complain) as client:
        try:
            yield client
        finally:
            # A user cannot change the version of a broker on another machine, so only the local one is compared.
            if broker is None:
                warn(client.headers)
