"""The client of a command: connects to this user's daemon and says so when its release differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grassq.cli.hot import warn_of_version
from grassq.net.client import Client


@contextmanager
def connect(*, autostart: bool = True) -> Iterator[Client]:
    """A client for one command."""
    with Client(autostart=autostart) as client:
        try:
            yield client
        finally:
            warn_of_version(client.daemon_version)
