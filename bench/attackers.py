"""One token that asks a broker for as much as it can, in a process of its own, until the process is ended.

`python -m bench.attackers PORT ATTACK JOBS CONNECTIONS` reads the token from stdin, and prints a line when it begins.
At the end of its stdin it prints how many answers of which status it got.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

#: Selectors that fit in one request line.
LINE_SELECTORS = 400
#: What is sent as one body; a broker takes 8 MiB of a token.
BODY_BYTES = 7 << 20
#: A client that an answer says to be too many asks again after this.
REFUSED_S = 0.05
#: Bytes of an answer that are taken at a time.
TAKEN = 1 << 18


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes = b""


#: Returns the requests of one connection, without end, for so many jobs in the store.
Attack = Callable[[int], Iterator[Asked]]


def _again(path: str) -> Iterator[Asked]:
    while True:
        yield Asked("GET", path)


def _selectors(texts: list[str]) -> str:
    return "&".join(f"selector={text}" for text in texts)


def _posted(path: str, document: dict[str, object]) -> Iterator[Asked]:
    """Yield the same change, each time with a key of its own."""
    rest = json.dumps(document, separators=(",", ":")).encode()[1:]
    while True:
        yield Asked("POST", path, b'{"key":"%s",%s' % (secrets.token_hex(16).encode(), rest))


def _ids(jobs: int) -> list[str]:
    return [f"1-{max(1, jobs - number)}" for number in range(LINE_SELECTORS)]


def _lasts(jobs: int) -> list[str]:
    return [f"@~{max(1, jobs - 1 - number)}" for number in range(LINE_SELECTORS)]


def _bulk(jobs: int) -> Iterator[Asked]:
    verbs = ("hold", "release", "kill", "rerun", "clean")
    held = [_posted(f"/v1/jobs/{verb}", {"selectors": [f"2-{jobs}"]}) for verb in verbs]
    while True:
        yield from (next(each) for each in held)


def _selector_lists(count: int, jobs: int) -> Iterator[Asked]:
    lasts = [f"@~{max(1, jobs - number)}" for number in range(count // 2)]
    return _posted("/v1/jobs/hold", {"selectors": [*lasts, *(f"name:n{number}" for number in range(count // 2))]})


def _nested(jobs: int) -> Iterator[Asked]:
    head = b'{"key":"' + b"0" * 32 + b'","job":{},"commands":['
    texts = (b"[],", b'[""],', b"[[[[[[[[", b'{"b64":""},', b'"' + b"\\u0041" * 40 + b'",')
    while True:
        for text in texts:
            yield Asked("POST", "/v1/submit-many", head + text * ((BODY_BYTES - len(head)) // len(text)))


READING: dict[str, Attack] = {
    "show all x100": lambda jobs: _again(f"/v1/show?{_selectors(['all'] * 100)}"),
    "show of 400 ranges": lambda jobs: _again(f"/v1/show?{_selectors(_ids(jobs))}"),
    "show of 400 last jobs": lambda jobs: _again(f"/v1/show?{_selectors(_lasts(jobs))}"),
    "show waiting": lambda jobs: _again("/v1/show?selector=waiting"),
    "show": lambda jobs: _again("/v1/show"),
    "why all": lambda jobs: _again("/v1/why?selector=all"),
    "jobs that nothing matches": lambda jobs: _again("/v1/jobs?text=nothing+has+this&limit=500&order=asc"),
    "jobs of a state that none has": lambda jobs: _again("/v1/jobs?selector=succeeded"),
    "wait for all": lambda jobs: _again("/v1/wait?selector=all&timeout_s=30"),
    "look with wait": lambda jobs: _again("/v1/wait?selector=all&timeout_s=0"),
    "a long log": lambda jobs: _again("/v1/jobs/1/log"),
    "a long log, followed": lambda jobs: _again("/v1/jobs/1/log?follow=1"),
    "events from the beginning": lambda jobs: _again("/v1/events?since=EPOCH.0"),
    "events of 400 ranges": lambda jobs: _again(f"/v1/events?since=EPOCH.0&{_selectors(_ids(jobs))}"),
}
CHANGING: dict[str, Attack] = {
    "submit 100,000": lambda jobs: _posted("/v1/submit", {"jobs": [{"command": ["true"], "hold": True}] * 100_000}),
    "submit 10,000": lambda jobs: _posted("/v1/submit", {"jobs": [{"command": ["true"], "hold": True}] * 10_000}),
    "submit 2,000": lambda jobs: _posted("/v1/submit", {"jobs": [{"command": ["true"], "hold": True}] * 2000}),
    "submit 1,000": lambda jobs: _posted("/v1/submit", {"jobs": [{"command": ["true"], "hold": True}] * 1000}),
    "submit one": lambda jobs: _posted("/v1/submit", {"jobs": [{"command": ["true"], "hold": True}]}),
    "submit-many 500,000": lambda jobs: _posted(
        "/v1/submit-many", {"job": {"hold": True}, "commands": [["true"]] * 500_000}
    ),
    "hold, release, kill, rerun, clean": _bulk,
    "10,000 selectors": partial(_selector_lists, 10_000),
    "2,000 selectors": partial(_selector_lists, 2000),
    "nested bodies": _nested,
}
ATTACKS = READING | CHANGING


class Attacker:
    """The connections of one token, each of which sends one request after the other."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        #: A broker begins TLS with one connection of an address at a time.
        self._connecting = asyncio.Lock()
        self.heard: Counter[str] = Counter()

    async def ask_on(self, requests: Iterator[Asked]) -> None:
        """Ask without end."""
        while True:
            try:
                async with self._connecting:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)
            except OSError:
                self.heard["no connection"] += 1
                await asyncio.sleep(REFUSED_S)
                continue
            with contextlib.suppress(OSError, EOFError, ValueError):
                while True:
                    await self._ask(reader, writer, next(requests))
            writer.close()

    async def epoch(self) -> str:
        """Return the name of this run of the broker, which positions begin with."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)
        writer.write(f"GET /v1/jobs?limit=1 HTTP/1.1\r\n{self._head_of(b'')}".encode())
        _, length = await self._head(reader)
        since = json.loads(await reader.readexactly(length or 0))["since"]
        writer.close()
        return str(since).rpartition(".")[0]

    def _head_of(self, body: bytes) -> str:
        return f"Host: grass\r\nAuthorization: Bearer {self._token}\r\nContent-Length: {len(body)}\r\n\r\n"

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Asked) -> None:
        writer.write(f"{asked.method} {asked.path} HTTP/1.1\r\n{self._head_of(asked.body)}".encode())
        writer.write(asked.body)
        status, length = await self._head(reader)
        self.heard[status] += 1
        if not status.startswith("2"):
            await asyncio.sleep(REFUSED_S)
        while length is None:
            size = int(await reader.readline(), 16)
            await _take(reader, size + 2)
            length = None if size else 0
        await _take(reader, length)

    async def _head(self, reader: asyncio.StreamReader) -> tuple[str, int | None]:
        """Return the status of an answer and its length, if it has one."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:] if line)
        length = fields.get("content-length")
        return head[0][9:], None if length is None else int(length)


async def _take(reader: asyncio.StreamReader, size: int) -> None:
    while size:
        part = await reader.read(min(size, TAKEN))
        if not part:
            raise EOFError
        size -= len(part)


async def _attack(port: int, token: str, name: str, jobs: int, connections: int) -> Counter[str]:
    attacker = Attacker(port, token)
    epoch = await attacker.epoch()
    # One for all connections, as its bodies may be large.
    requests = (asked._replace(path=asked.path.replace("EPOCH", epoch)) for asked in ATTACKS[name](jobs))
    tasks = [asyncio.create_task(attacker.ask_on(requests)) for _ in range(connections)]
    print("begins", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    return attacker.heard


def main() -> None:
    """Attack until stdin ends."""
    port, name, jobs, connections = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    token = sys.stdin.readline().strip()
    heard = asyncio.run(_attack(port, token, name, jobs, connections))
    print(json.dumps(heard), flush=True)


if __name__ == "__main__":
    main()
