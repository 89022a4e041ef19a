"""How long others wait while one token asks a broker for as much as it can.

A token attacks over TLS with many connections. Meanwhile the owner enqueues, shows and waits on the unix socket, and
another token submits and shows. `python -m bench fairness --json FILE` writes the figures too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.attackers import ATTACKS
from bench.homes import Member, Members, free_address
from bench.table import machine
from grassq.errors import GrassError
from grassq.net import broker_file
from grassq.net.client import ApiClient

JOBS = 10_000
CONNECTIONS = 64
SECONDS = 5.0
#: Submitted at a time before an attack.
CHUNK = 2_000
#: The log of job 1.
LOG_BYTES = 100_000_000
#: Between two commands of one person.
PAUSE_S = 0.02
HEAD = ("OWNER submits, shows, waits", "OTHER submits, shows (worst, s)", "MEMORY", "ANSWERS to the attacker")


@contextmanager
def attacked(port: int, token: str, name: str, jobs: int, connections: int) -> Iterator[dict[str, int]]:
    """Attack until the end of the block; then the answers are counted by status in what was yielded."""
    words = [sys.executable, "-m", "bench.attackers", str(port), name, str(jobs), str(connections)]
    heard: dict[str, int] = {}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(token + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "begins\n":
            raise SystemExit(f"the attack {name!r} did not begin")
        try:
            yield heard
        finally:
            process.stdin.close()
            heard.update(json.loads(process.stdout.readline() or "{}"))
            process.kill()


def _worst(ask: Callable[[], object], until: float) -> float:
    """Return the longest of many answers, in seconds; a refusal counts as no answer."""
    worst = 0.0
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            ask()
        except GrassError as error:
            print(error, file=sys.stderr)
            return float("inf")
        worst = max(worst, time.monotonic() - began)
        time.sleep(PAUSE_S)
    return worst


def _asks(owner: ApiClient, other: ApiClient) -> list[Callable[[], object]]:
    """Return what each column does."""
    held = {"command": ["true"], "hold": True}
    first = owner.submit([held])["ids"][0]
    return [
        lambda: owner.submit([held]),
        lambda: owner.show([str(first)]),
        lambda: owner.wait([str(first)], timeout_s=0.001),
        lambda: other.submit([held]),
        lambda: other.show([str(first)]),
    ]


async def _others(asks: list[Callable[[], object]], seconds: float) -> list[float]:
    until = time.monotonic() + seconds
    return [*await asyncio.gather(*(asyncio.to_thread(_worst, ask, until) for ask in asks))]


class Measured:
    """A broker with jobs, an attacker's token, and another person."""

    def __init__(self, members: Members, jobs: int) -> None:
        self.address = free_address()
        self.jobs = jobs
        self.broker = members.member("broker")
        self.broker.serve("--bind", self.address)
        self.eve, self.ann = (self._person(members, name) for name in ("eve", "ann"))
        with self.broker.client() as client:
            self._pid = client.info()["pid"]
            long = client.submit([{"command": ["head", "-c", str(LOG_BYTES), "/dev/zero"]}])["ids"]
            client.wait(map(str, long), timeout_s=30)
        # The attacker's own, so that it may change them. They change once, for readers of events.
        with ApiClient(str(self.eve.home), broker=self.address) as client:
            for at in range(0, jobs, CHUNK):
                client.submit_many([["true"]] * min(CHUNK, jobs - at), {"queue": "nowhere"})
            client.change("jobs/hold", selectors=["all"])
            client.change("jobs/release", selectors=["all"])

    def _person(self, members: Members, name: str) -> Member:
        person = members.member(name)
        with self.broker.client() as client:
            code = str(client.change("tokens/create", scope="submit", bare=True, ttl_s=600.0)["code"])
        person.run("login", said=code)
        return person

    def token(self) -> str:
        """Return the attacker's token."""
        login = broker_file.load(str(self.eve.home)).entries[0].login
        assert login is not None
        return login.token

    def row(self, name: str, connections: int, seconds: float) -> dict[str, Any]:
        """Return what one attack did."""
        port = int(self.address.rpartition(":")[2])
        clients = [(self.broker.client(), ApiClient(str(self.ann.home), broker=self.address)) for _ in range(5)]
        asks = [_asks(*pair)[column] for column, pair in enumerate(clients)]
        with attacked(port, self.token(), name, self.jobs, connections) as heard:
            worst = asyncio.run(_others(asks, seconds))
        return {"attack": name, "answers": dict(heard), "worst_s": worst, "memory_mb": self._memory_mb()}

    def _memory_mb(self) -> int:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench fairness", description=__doc__)
    parser.add_argument("attacks", metavar="ATTACK", nargs="*", help=f"only these: {'; '.join(ATTACKS)}")
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"in the store (default {JOBS:,})")
    parser.add_argument("--connections", metavar="N", type=int, default=CONNECTIONS, help="of the attacker")
    parser.add_argument("--seconds", metavar="S", type=float, default=SECONDS, help="of each attack")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.attacks) - set(ATTACKS):
        parser.error(f"there is no attack {min(unknown)!r}; they are {'; '.join(ATTACKS)}")
    load = os.getloadavg()[0]
    chosen = arguments.attacks or [*ATTACKS]
    rows = []
    print(f"{'ATTACK':<34} " + " | ".join(HEAD))
    for name in chosen:
        # A broker for each: what one attack has stored must not slow down the next.
        with Members() as members:
            row = Measured(members, arguments.jobs).row(name, arguments.connections, arguments.seconds)
        rows.append(row)
        worst = "  ".join(f"{seconds:6.3f}" for seconds in row["worst_s"])
        print(f"{name:<34} {worst}  {row['memory_mb']:>6} MB  {row['answers']}", flush=True)
    about = machine(load_before=load)
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": about, "jobs": arguments.jobs, "rows": rows}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
