"""Listening on TCP: what a stranger may cost, and that nobody else pays for it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import resource
import socket
import ssl
import subprocess

import pytest
from tests.e2e.world import free_port
from tests.web.broker_fixture import BrokerFixture, answer_from, exchange, is_closed, key, play, until

from grassq.core.syntax.addresses import Address
from grassq.errors import BadInput, Refused
from grassq.pins import key_pin
from grassq.web import responses
from grassq.web.access import auth, bodies
from grassq.web.listen import admission, tcp


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything has half a second instead of ten."""
    monkeypatch.setattr(admission, "HELLO_S", 0.5)
    monkeypatch.setattr(bodies, "BODY_S", 0.5)
    monkeypatch.setattr(responses, "REST_S", 0.2)


async def raw(fixture: BrokerFixture) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection without TLS."""
    streams = await asyncio.open_connection("127.0.0.1", fixture.port)
    fixture.writers.append(streams[1])
    return streams


def test_plain_http_gets_no_http_answer() -> None:
    async def test(fixture: BrokerFixture) -> None:
        reader, writer = await raw(fixture)
        writer.write(b"GET /v1/show HTTP/1.1\r\nHost: grass\r\n\r\n")
        with contextlib.suppress(OSError):
            assert b"HTTP" not in await reader.read()

    play(test)


@pytest.mark.parametrize(("version", "works"), [("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)])
def test_tls_is_1_2_or_newer(version: str, works: bool) -> None:
    async def test(fixture: BrokerFixture) -> None:
        ciphers = ["-cipher", "DEFAULT@SECLEVEL=0"] if version == "-tls1_1" else []
        client = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", f"127.0.0.1:{fixture.port}", version, *ciphers, "-brief",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        _, err = await client.communicate()
        assert (b"CONNECTION ESTABLISHED" in err) == works, err

    play(test)


def test_another_certificate_is_noticed_by_a_client_that_pinned_ours() -> None:
    async def test(fixture: BrokerFixture) -> None:
        _, writer = await fixture.connect()
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert key_pin(shown) == fixture.identity.fingerprint

    play(test)


@pytest.mark.parametrize("what", ["silence", "half a handshake", "half a header", "no token", "endless headers"])
def test_who_shows_no_token_in_time_is_cut(what: str, hurried: None) -> None:
    async def test(fixture: BrokerFixture) -> None:
        if what in ("silence", "half a handshake"):
            reader, writer = await raw(fixture)
            writer.write(b"\x16\x03\x01" if what == "half a handshake" else b"")
        else:
            reader, writer = await fixture.connect()
            writer.write({"half a header": b"GET /v1/show HT", "no token": b""}.get(what, b"GET / HTTP/1.1\r\n"))
        if what == "no token":
            assert (await exchange(reader, writer, "GET", "/v1/show")).status == 401
        if what == "endless headers":
            with contextlib.suppress(OSError):
                for number in range(200):
                    writer.write(f"X-{number}: {'x' * 100}\r\n".encode())
                    await writer.drain()
        assert await is_closed(reader, 10)

    play(test)


def test_who_shows_a_token_may_stay(hurried: None) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        reader, writer = await fixture.connect()
        assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 200
        assert not await is_closed(reader, 1.0)

    play(test)


def test_many_strangers_are_cut_one_by_one_and_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "UNAUTHENTICATED_MAX", 8)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        strangers = [await raw(fixture) for _ in range(80)]
        for _, writer in strangers:
            writer.write(b"\x16\x03\x01")  # begins TLS; who says nothing at all is closed after a second
        async with asyncio.timeout(15):
            assert (await fixture.ask("GET", "/v1/show", token=token)).status == 200
        for reader, _ in strangers[:70]:
            assert await is_closed(reader)
        assert not await is_closed(strangers[-1][0], 0.1)

    play(test)


def test_a_flood_from_one_address_cuts_nobody_at_another_and_nobody_with_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "UNAUTHENTICATED_MAX", 4)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        # More than may be strangers: with a token they do not count.
        kept = [await fixture.connect() for _ in range(4)]
        for reader, writer in kept:
            assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 200
        slow = await asyncio.open_connection(
            "127.0.0.1", fixture.port, ssl=fixture.client_context(), local_addr=("127.0.0.2", 0)
        )
        fixture.writers.append(slow[1])
        for _ in range(40):
            _, stranger = await raw(fixture)
            stranger.write(b"\x16\x03\x01")
        for reader, writer in [slow, *kept]:
            assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 200

    play(test)


@pytest.mark.parametrize(("path", "known"), [("/v1/submit", False), ("/v1/redeem", False), ("/v1/submit", True)])
@pytest.mark.parametrize("length", ["Content-Length: 10000000000", "Transfer-Encoding: chunked"])
def test_a_stream_without_end_is_refused_and_costs_no_memory(
    path: str, known: bool, length: str, hurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_MAX", 4 << 20)

    async def test(fixture: BrokerFixture) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        shown = f"Authorization: Bearer {await fixture.token('submit')}\r\n" if known else ""
        reader, writer = await fixture.connect()
        writer.write(f"POST {path} HTTP/1.1\r\nHost: grass\r\n{shown}{length}\r\n\r\n".encode())
        sending = asyncio.create_task(pour(writer, chunked="chunked" in length))
        answer = await answer_from(reader)
        assert answer.status == (413 if known or "redeem" in path else 401), answer
        assert await is_closed(reader, 10)
        # What was sent lies mostly in the kernel's buffers.
        sent = await sending
        assert sent < 32 << 20, f"{sent:,} bytes were taken"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 50_000, f"{grown:,} KiB more"

    play(test)


async def pour(writer: asyncio.StreamWriter, *, chunked: bool) -> int:
    """Send for ever; how many bytes the other side took until it had enough."""
    block = b"x" * 65536
    sent = 0
    with contextlib.suppress(OSError):
        # What is written to a transport that is closing goes nowhere, without an error.
        while sent < 1 << 30 and not writer.transport.is_closing():
            writer.write(b"10000\r\n" + block + b"\r\n" if chunked else block)
            await writer.drain()
            # Of a connection that is gone one hears only when the loop has had its turn, and drain alone gives it none.
            await asyncio.sleep(0)
            sent += len(block)
    return sent


def test_a_body_that_comes_too_slowly_is_given_up(hurried: None) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit")
        reader, writer = await fixture.connect()
        head = (
            f"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n"
        )
        writer.write(head.encode() + b"{")
        assert (await answer_from(reader)).status == 408
        assert await is_closed(reader, 10)

    play(test)


def test_a_body_cut_short_stores_nothing() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        _, writer = await fixture.connect()
        head = (
            f"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n"
        )
        writer.write(head.encode() + b'{"jobs": [{"command": ["true"]}]')
        await writer.drain()
        writer.transport.abort()
        await until(lambda: b'"path":"/v1/submit"' in (fixture.home / "audit.log").read_bytes())
        assert (await fixture.ask("GET", "/v1/show?selector=all", token=token)).json["jobs"] == []

    play(test)


def test_a_compressed_body_is_refused_unread() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit")
        bomb = gzip.compress(b"0" * (10 << 20))
        answer = await fixture.ask("POST", "/v1/submit", bomb, token, {"Content-Encoding": "gzip"})
        assert answer.status == 415

    play(test)


def test_a_token_has_a_bounded_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "CONNECTIONS_MAX", 3)

    async def test(fixture: BrokerFixture) -> None:
        token, other = await fixture.token("read"), await fixture.token("read")
        held = [await fixture.connect() for _ in range(3)]
        for reader, writer in held:
            assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 200
        assert (await fixture.ask("GET", "/v1/show", token=token)).status == 429
        assert (await fixture.ask("GET", "/v1/show", token=other)).status == 200
        held[0][1].close()
        async with asyncio.timeout(10):
            while (await fixture.ask("GET", "/v1/show", token=token)).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    play(test)


def test_bytes_that_are_no_http_are_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(fixture: BrokerFixture) -> None:
        for junk in (b"\0" * 100, b"GET /\xff\xff HTTP/9.9\r\n\r\n", b"A" * 20_000 + b"\r\n\r\n"):
            reader, writer = await fixture.connect()
            writer.write(junk)
            writer.write_eof() if writer.can_write_eof() else None
            assert await is_closed(reader, 15)

    play(test)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/submit HTTP/1.1\r\nHost: grass\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/show HTTP/1.1\r\nHost: grass\r\nX: a\rb\r\n\r\n",
        b"GET /v1/show HTTP/1.1\r\nHost : grass\r\n\r\n",
        b"GET /v1/show HTTP/1.1\r\nHost: grass\r\n folded: x\r\n\r\n",
        b"GET http://evil.example/v1/show HTTP/1.1\r\nHost: grass\r\n\r\n",
    ],
)
def test_requests_with_two_meanings_are_refused(request_bytes: bytes) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("admin")
        head, _, rest = request_bytes.partition(b"\r\n\r\n")
        reader, writer = await fixture.connect()
        writer.write(head + f"\r\nAuthorization: Bearer {token}\r\n\r\n".encode() + rest)
        assert (await answer_from(reader)).status in (400, 403, 404, 405, 421)

    play(test)


def listening(*addresses: Address) -> list[tuple[str, int]]:
    """Listen on some addresses; where that is."""

    async def all_of_it(fixture: BrokerFixture) -> None:
        async with contextlib.AsyncExitStack() as stack:
            runner = tcp.make_runner(fixture.api.app(), 0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            sockets = await tcp.listen(stack, runner, addresses, fixture.identity)
            found.extend(sock.getsockname()[:2] for sock in sockets)

    found: list[tuple[str, int]] = []
    play(all_of_it)
    return found


def test_names_and_both_families_are_bound() -> None:
    hosts = {host for host, _ in listening(Address("localhost", 0), Address("127.0.0.1", 0))}
    assert "127.0.0.1" in hosts
    if socket.has_ipv6 and ipv6_works():
        assert {host for host, _ in listening(Address("::1", 0))} == {"::1"}
        assert {host for host, _ in listening(Address("::", 0), Address("0.0.0.0", 0))} == {"::", "0.0.0.0"}


def ipv6_works() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::1", 0))
        return True
    return False


def test_a_port_that_is_taken_a_name_unknown_and_an_address_elsewhere_are_said_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Refused, match="taken by another program"):
            listening(Address("127.0.0.1", taken.getsockname()[1]))
    with pytest.raises(BadInput, match="no address has the name"):
        listening(Address("no-such-host.invalid", 0))
    with pytest.raises(Refused, match="not an address of this machine"):
        listening(Address("192.0.2.1", 0))


def test_an_address_said_twice_is_bound_once_and_one_bound_by_somebody_who_does_not_listen_is_said_in_words() -> None:
    port = free_port()
    assert len(listening(*(Address(host, port) for host in ("127.0.0.1", "127.0.0.1", "127.1")))) == 1
    with socket.socket() as taken, pytest.raises(Refused, match="taken by another program"):
        taken.bind(("127.0.0.1", 0))
        listening(Address("127.0.0.1", taken.getsockname()[1]))


def test_one_ipv6_network_counts_as_one_peer() -> None:
    assert admission.network_of("2001:db8::1") == admission.network_of("2001:db8::ffff:1")
    assert admission.network_of("2001:db8:1::1") != admission.network_of("2001:db8:2::1")
    assert admission.network_of("fe80::1%eth0") == admission.network_of("fe80::2%eth1")
    assert admission.network_of("10.0.0.1") != admission.network_of("10.0.0.2")


def test_the_broker_stops_with_connections_of_every_kind_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "UNAUTHENTICATED_MAX", 2)

    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("read")
        reader, writer = await fixture.connect()
        assert (await exchange(reader, writer, "GET", "/v1/show", token=token)).status == 200
        for _ in range(5):
            await raw(fixture)

    play(test)


def test_a_client_that_trusts_another_authority_is_not_fooled() -> None:
    async def test(fixture: BrokerFixture) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", fixture.port, ssl=ssl.create_default_context())
        assert (await fixture.ask("POST", "/v1/tokens/create", {"scope": "read", "key": key()})).status == 401

    play(test)
