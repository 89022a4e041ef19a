"""The client of a command: connects to this user's daemon or to a broker, and says when the release differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grassq import home as homes
from grassq.cli.output import complain, warn_of_version
from grassq.net.client import ApiClient


@contextmanager
def connect(typed: str | None = None, *, local: bool = False) -> Iterator[ApiClient]:
    """A client for one command: of the broker that --broker, GRASS_BROKER or `grass use` names, else of the daemon."""
    home = homes.current()
    broker = None if local else homes.broker(home, typed)
    with ApiClient(home, broker=broker, tell=complain) as client:
        try:
            yield client
        finally:
            # The release of another machine is not this user's to change, and two that are one apart get along.
            if broker is None:
                warn_of_version(client.daemon_version)
