"""A home in which every job waits for a device that one job holds, and a client that asks small questions meanwhile."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from bench.homes import own_home, until
from grassq.net.client import ApiClient
from grassq.sdk import Client

CAPACITY = "{cpu: 2, printer: 1}"
#: The request of a job that waits.
BLOCKED = {"printer": 1}
#: Between two small requests.
PAUSE_S = 0.002
ANSWER_S = 60.0


class BlockedHome(NamedTuple):
    """A home whose one printer is taken."""

    home: str
    client: Client
    requests: ApiClient
    #: The job that holds the printer.
    holder: int


@contextmanager
def blocked_home() -> Iterator[BlockedHome]:
    """Make a home whose printer is taken; at the end nothing of it runs."""
    with own_home() as home:
        (Path(home) / "grass.toml").write_text(f'capacity = "{CAPACITY}"\n')
        with Client(home) as client, ApiClient(home) as requests:
            holder = client.submit(["sleep", "1000000"], request=BLOCKED)
            until(lambda: holder.state == "running", "running holder of the printer")
            try:
                yield BlockedHome(home, client, requests, holder.id)
            finally:
                requests.change("pause")
                holder.kill(grace_s=0)
                until(holder.done, "end of the holder")


class Asker:
    """Asks `why` of one job, again and again, in a process of its own, and keeps the longest answer."""

    def __init__(self, home: str, job: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._end, theirs = context.Pipe()
        self._process = context.Process(target=_ask, args=(home, str(job), theirs))

    def __enter__(self) -> Asker:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.send(False)
        self._process.join()

    def worst(self) -> float:
        """Return the longest answer since the last call, in seconds; the request under way counts too."""
        self._end.send(True)
        if not self._end.poll(ANSWER_S):
            raise SystemExit(f"no answer to `why` within {ANSWER_S:g} s")
        return float(self._end.recv())


def _ask(home: str, job: str, end: Connection) -> None:
    worst = 0.0
    with ApiClient(home) as client:
        while True:
            began = time.perf_counter()
            client.get("why", [job])
            worst = max(worst, time.perf_counter() - began)
            if end.poll(PAUSE_S):
                if not end.recv():
                    return
                end.send(worst)
                worst = 0.0
