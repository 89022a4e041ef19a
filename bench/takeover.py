"""Two brokers on one PostgreSQL: how long until the second serves when the first is killed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from bench.homes import Member, Members, free_address, until
from bench.table import Row, Skipped
from grassq.net.client import ApiClient

ROUNDS = 5
NAME = "takeover"
#: What a broker says that finds another leading.
STANDS_BY = "standing by"


def rows(part: int) -> tuple[list[Row], list[Skipped]]:
    """The times of some takeovers, from the kill on."""
    try:
        # Not installed with Grass: the tests bring a server.
        from tests import postgres
    except ImportError as error:
        return [], [Skipped(NAME, f"there is no PostgreSQL here ({error}); `make test` installs one")]
    server = postgres.fresh()
    try:
        return _measured(server.database(), max(1, ROUNDS // part)), []
    finally:
        server.stop()


def _measured(url: str, rounds: int) -> list[Row]:
    answered: list[float] = []
    served: list[float] = []
    in_touch: list[float] = []
    with Members() as members:
        cert = _certificate(members)
        brokers = [members.member(name) for name in ("first", "second")]
        addresses = [free_address() for _ in brokers]
        words = [("--bind", each, "--no-worker", "--cert", cert, "--store", url) for each in addresses]
        both = ",".join(addresses)
        brokers[0].serve(*words[0])
        members.worker(brokers[0], both)
        person = members.person(brokers[0])
        for turn in range(rounds):
            predecessor, standby = turn % 2, 1 - turn % 2
            _stand_by(brokers[standby], *words[standby])
            times = _taken_over(brokers[predecessor], brokers[standby], ApiClient(str(person.home), broker=both))
            for kept, took in zip((answered, served, in_touch), times, strict=True):
                kept.append(took)
    begin = "from kill -9 of the first broker until"
    return [
        Row(f"{NAME}: the second broker answers", "s", answered, [], f"{begin} the second answers on its own machine"),
        Row(f"{NAME}: a client is served", "s", served, [], f"{begin} a request made at that moment is answered"),
        Row(f"{NAME}: the worker is in touch", "s", in_touch, [], f"{begin} the second broker shows the worker online"),
    ]


def _certificate(members: Members) -> str:
    """One certificate for both: what a home made for itself, copied."""
    maker = members.member("maker")
    maker.serve("--bind", free_address(), "--no-worker")
    maker.close()
    return str(maker.home / "tls.pem")


def _stand_by(broker: Member, *words: str) -> None:
    said = broker.said.read_text().count(STANDS_BY) if broker.said.exists() else 0
    broker.start(*words)
    until(lambda: broker.said.read_text().count(STANDS_BY) > said, "broker that stands by")


def _taken_over(predecessor: Member, standby: Member, client: ApiClient) -> tuple[float, float, float]:
    with client, ThreadPoolExecutor(1) as aside:
        client.info()
        predecessor.kill()
        began = time.monotonic()

        def ask() -> float:
            client.info()
            return time.monotonic() - began

        asked = aside.submit(ask)
        until(standby.answers, "answer of the second broker")
        answered = time.monotonic() - began
        until(lambda: standby.online("node"), "the worker at the second broker")
        in_touch = time.monotonic() - began
        return answered, asked.result(), in_touch
