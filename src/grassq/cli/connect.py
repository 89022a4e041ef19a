"""Opens the client of one command: to this user's daemon or to a broker."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from grassq import home as homes
from grassq.cli.fast import complain, current_home, warn
from grassq.core.syntax.durations import patience_s
from grassq.net.client import ApiClient
from grassq.net.retry import AWAY_S


@contextmanager
def connect(typed: str | None = None, *, local: bool = False, away_s: float = AWAY_S) -> Iterator[ApiClient]:
    """Yield a client of the broker that --broker, GRASS_BROKER or `grass use` names, else of the local daemon."""
    home = current_home()
    broker = None if local else homes.broker(home, typed)
    with ApiClient(home, broker=broker, tell=complain, away_s=away_s) as client:
        try:
            yield client
        finally:
            # A user cannot change the version of a broker on another machine, so only the local one is compared.
            if broker is None:
                warn(client.headers)


def add_patient(parser: argparse.ArgumentParser) -> None:
    """Add --patient: how long a broker may be away before the command gives up."""
    help_ = f"how long the broker may be away, such as 2h, or `always` (default: {AWAY_S:g}s)"
    parser.add_argument("--patient", metavar="DURATION", type=patience_s, default=AWAY_S, help=help_)
