"""Requests that two readers could understand differently: each is refused, and nothing hidden in it is done."""

from __future__ import annotations

import asyncio

import pytest
from tests.web.broker_fixture import BrokerFixture, key, play

#: What would be done if a request could be hidden inside another.
HIDDEN = b'{"jobs":[{"command":["hidden"],"hold":true}],"key":"%s"}'


def _inner(token: str) -> bytes:
    body = HIDDEN % key().encode()
    head = f"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


#: Lines of the head of a POST, and how its body is framed; {n} is the length of what is hidden in it.
AMBIGUOUS = {
    "a length and chunks": ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    "two lengths": ("Content-Length: 0\r\nContent-Length: {n}\r\n", b""),
    "a length with a sign": ("Content-Length: +{n}\r\n", b""),
    "a length in two words": ("Content-Length: 0 {n}\r\n", b""),
    "chunks under a strange name": ("Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "chunks twice": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"),
    "a chunk of no number": ("Transfer-Encoding: chunked\r\n", b"0x0\r\n\r\n"),
    "a chunk with a sign": ("Transfer-Encoding: chunked\r\n", b"-0\r\n\r\n"),
    "a space before the colon": ("Content-Length : 0\r\n", b""),
    "a line that goes on": ("X-Note: a\r\n Content-Length: 0\r\n", b""),
    "a bare line feed": ("X-Note: a\nContent-Length: 0\r\n", b""),
    "a NUL in a value": ("X-Note: a\0b\r\nContent-Length: 0\r\n", b""),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_request_is_refused_and_what_it_hides_is_not_done(name: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("admin")
        inner = _inner(token)
        lines, framing = AMBIGUOUS[name]
        reader, writer = await fixture.connect()
        head = f"POST /v1/pause HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n"
        writer.write(head.encode() + lines.format(n=len(inner)).encode() + b"\r\n" + framing + inner)
        await writer.drain()
        writer.write_eof() if writer.can_write_eof() else None
        async with asyncio.timeout(20):
            said = await reader.read()
        assert b"HTTP/1.1 2" not in said, said
        shown = await fixture.ask("GET", "/v1/show?selector=all", local=True)
        assert b"hidden" not in shown.body and shown.json["paused"] == []

    play(test)


@pytest.mark.parametrize(
    "first",
    [
        "POST /v1/pause\r\nX: y HTTP/1.1",
        "PO\0ST /v1/pause HTTP/1.1",
        "POST /v1/pause HTTP/9.9",
        "BREW /v1/show HTTP/1.1",
    ],
)
def test_a_first_line_that_makes_no_sense_is_refused(first: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await fixture.connect()
        token = await fixture.token("admin")
        writer.write(f"{first}\r\nHost: grass\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n".encode())
        async with asyncio.timeout(20):
            said = await reader.read(64)
        assert not said.startswith(b"HTTP/1.1 2"), said

    play(test)


def test_behind_a_request_with_a_plain_end_the_same_words_are_a_request_of_their_own() -> None:
    """So the tests above would notice it."""

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("admin")
        reader, writer = await fixture.connect()
        head = f"POST /v1/pause HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
        writer.write(head.encode() + _inner(token))
        async with asyncio.timeout(20):
            await reader.readuntil(b'"ids":[1]')

    play(test)
