"""Talking to a broker on another machine: who it is, where it is, and what is sent there."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, Request, document, reply
from tests.cli.fake_broker import TOKEN, Certificate, FakeBroker, closed_port, let_in

from grassq.core.syntax.addresses import Address
from grassq.errors import Refused, StoreUnavailable, Unreachable
from grassq.net import broker as remote_broker
from grassq.net import broker_file, retry, tls
from grassq.net.client import ApiClient
from grassq.net.http import Connection


def shown(request: Request) -> Answer:
    return document({"jobs": []})


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


@pytest.fixture
def broker(home: Path, certificate: Certificate) -> Iterator[FakeBroker]:
    with FakeBroker(certificate, shown) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        yield broker


#: How long a broker may be away for a test that waits it out, in seconds.
SHORT_S = 0.3


def client(home: Path, *addresses: Address | str, away_s: float = retry.AWAY_S) -> ApiClient:
    return ApiClient(str(home), broker=",".join(map(str, addresses)), away_s=away_s)


def test_a_request_carries_the_token_and_the_name_grass(home: Path, broker: FakeBroker) -> None:
    with client(home, broker.address) as mine:
        assert mine.show() == {"jobs": []}
    [request] = broker.requests
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["host"] == "grass"


def test_one_connection_serves_many_requests(home: Path, broker: FakeBroker) -> None:
    with client(home, broker.address) as mine:
        for _ in range(3):
            mine.show()
    assert (len(broker.requests), broker.handshakes) == (3, 1)


def test_a_swapped_certificate_is_refused_before_a_byte_of_the_request_is_sent(
    home: Path, tmp_path: Path, certificate: Certificate
) -> None:
    other = Certificate(tmp_path)
    with FakeBroker(other, shown) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        with pytest.raises(Refused) as caught, client(home, broker.address) as mine:
            mine.change("jobs/hold", selectors=["3"])
    assert (broker.handshakes, broker.heard) == (1, b"")
    words = str(caught.value)
    assert certificate.fingerprint.hex() in words and other.key_pin.hex() in words and "grass login" in words


def test_an_expired_certificate_is_as_good_as_any_that_is_pinned(home: Path, tmp_path: Path) -> None:
    old = Certificate(tmp_path, expired=True)
    with FakeBroker(old, shown) as broker:
        let_in(home, old.fingerprint, broker.address)
        with client(home, broker.address) as mine:
            assert mine.show() == {"jobs": []}


@pytest.mark.parametrize(("host", "named"), [("::1", "::1"), ("127.0.0.1", "localhost")])
def test_names_and_both_kinds_of_numbers_work(home: Path, certificate: Certificate, host: str, named: str) -> None:
    with FakeBroker(certificate, shown, host=host) as broker:
        let_in(home, certificate.fingerprint, Address(named, broker.port))
        with client(home, Address(named, broker.port)) as mine:
            assert mine.show() == {"jobs": []}


def test_every_machine_a_name_stands_for_is_tried(
    home: Path, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = closed_port()
    places = [(2, 1, 6, "", ("127.0.0.1", port)) for port in (dead.port, broker.port)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    with client(home, broker.address) as mine:
        assert mine.show() == {"jobs": []}


def test_of_several_addresses_the_first_that_answers_is_used(home: Path, broker: FakeBroker) -> None:
    with client(home, closed_port(), broker.address) as mine:
        assert mine.show() == {"jobs": []}


def test_a_stranger_at_one_address_does_not_keep_the_right_one_from_being_found(
    home: Path, tmp_path: Path, broker: FakeBroker
) -> None:
    with FakeBroker(Certificate(tmp_path), shown) as stranger, client(home, stranger.address, broker.address) as mine:
        assert mine.show() == {"jobs": []}
    assert stranger.heard == b""


def test_a_known_broker_is_also_sought_where_else_it_is_known_to_be(home: Path, certificate: Certificate) -> None:
    first = closed_port()
    with FakeBroker(certificate, shown) as broker:
        let_in(home, certificate.fingerprint, first, broker.address)
        with client(home, first) as mine:
            assert mine.show() == {"jobs": []}


def test_a_new_address_is_recognised_by_its_certificate_and_remembered(home: Path, broker: FakeBroker) -> None:
    alias = Address("localhost", broker.port)
    with client(home, alias) as mine:
        mine.show()
    [entry] = broker_file.load(str(home)).entries
    assert entry.addresses == [broker.address, alias]


def test_a_new_address_with_an_unknown_certificate_gets_no_token(
    home: Path, tmp_path: Path, broker: FakeBroker
) -> None:
    with FakeBroker(Certificate(tmp_path), shown) as stranger:
        with pytest.raises(Refused, match=r"no access to .* ask its owner for a code"):
            client(home, stranger.address).show()
        assert stranger.heard == b""


def test_without_a_login_nothing_is_dialled(home: Path, certificate: Certificate) -> None:
    with FakeBroker(certificate, shown) as broker:
        with pytest.raises(Refused, match=r"no access to 127\.0\.0\.1:[0-9]+, .* ask .* `grass login`"):
            client(home, broker.address)
        let_in(home, certificate.fingerprint, broker.address, login=None, worker=TOKEN)
        with pytest.raises(Refused, match="no access to"):
            client(home, broker.address)
    assert broker.handshakes == 0


def test_older_tls_is_not_spoken(home: Path, certificate: Certificate) -> None:
    with pytest.warns(DeprecationWarning):
        broker = FakeBroker(certificate, shown, newest=ssl.TLSVersion.TLSv1_1)
    with broker:
        let_in(home, certificate.fingerprint, broker.address)
        with pytest.raises(Unreachable):
            tls.dial([broker.address], lambda address, found: None)
    assert broker.handshakes == 0


def test_what_speaks_no_tls_is_a_sentence_at_once(home: Path, certificate: Certificate) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        address = Address("127.0.0.1", plain.getsockname()[1])
        let_in(home, certificate.fingerprint, address)

        def talk() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1000)

        threading.Thread(target=talk, daemon=True).start()
        began = monotonic()
        with pytest.raises(Unreachable, match="does not speak TLS"):
            client(home, address).show()
        assert monotonic() - began < retry.AWAY_S / 2


def test_a_machine_that_does_not_exist_is_a_sentence_at_once(home: Path, certificate: Certificate) -> None:
    address = Address("no-such-machine.invalid")
    let_in(home, certificate.fingerprint, address)
    began = monotonic()
    with pytest.raises(Unreachable, match=r"no-such-machine\.invalid"):
        client(home, address).show()
    assert monotonic() - began < retry.AWAY_S / 2


class Standby:
    """Nobody listens, until somebody does."""

    def __init__(self, certificate: Certificate, address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker: FakeBroker | None = None
        self._certificate, self._address, self._naps = certificate, address, 0
        monkeypatch.setattr(retry, "sleep", self._nap)

    def _nap(self, seconds: float) -> None:
        # The third time somebody waits, the other broker has taken over.
        self._naps += 1
        if self._naps == 3:
            self.broker = FakeBroker(self._certificate, shown, port=self._address.port).__enter__()


@pytest.mark.parametrize("verb", ["show", "hold"])
def test_a_broker_that_restarts_is_waited_for(
    home: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    address = closed_port()
    let_in(home, certificate.fingerprint, address)
    standby = Standby(certificate, address, monkeypatch)
    told: list[str] = []
    with ApiClient(str(home), broker=str(address), tell=told.append) as mine:
        answer = mine.show() if verb == "show" else mine.change("jobs/hold", selectors=["3"])
    assert answer == {"jobs": []}
    assert standby.broker is not None
    standby.broker.__exit__(None, None, None)
    [words] = told
    assert str(address) in words


def test_a_request_broken_off_is_repeated_with_the_same_key(home: Path, certificate: Certificate) -> None:
    answers: list[Answer] = [None, None, document({"jobs": []})]
    with FakeBroker(certificate, lambda request: answers.pop(0)) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        with client(home, broker.address) as mine:
            mine.change("jobs/hold", selectors=["3"])
    assert len({request.document["key"] for request in broker.requests}) == 1
    assert len(broker.requests) == 3


def test_a_broker_that_stays_away_is_exit_4_and_named(home: Path, certificate: Certificate) -> None:
    address = closed_port()
    let_in(home, certificate.fingerprint, address)
    with pytest.raises(
        Unreachable, match=f"the broker {address} does not answer .*Connection refused.*tried for 0.3 s"
    ):
        client(home, address, away_s=SHORT_S).show()


class Clock:
    """A clock that goes on only while somebody sleeps; after `end` seconds it stops the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end: float = float("inf")) -> None:
        self.now, self._end = 1.0, end
        monkeypatch.setattr(retry, "monotonic", lambda: self.now)
        monkeypatch.setattr(retry, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self._end:
            raise KeyboardInterrupt


@pytest.mark.parametrize("away_s", [5.0, 90.0])
def test_a_broker_may_be_away_as_long_as_the_client_says(
    home: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch, away_s: float
) -> None:
    address, clock = closed_port(), Clock(monkeypatch)
    let_in(home, certificate.fingerprint, address)
    with pytest.raises(Unreachable):
        client(home, address, away_s=away_s).show()
    assert away_s - 1 <= clock.now - 1 <= away_s


def test_a_client_that_is_always_patient_never_gives_up_and_says_so(
    home: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = closed_port()
    let_in(home, certificate.fingerprint, address)
    Clock(monkeypatch, end=1000.0)
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        ApiClient(str(home), broker=str(address), tell=told.append, away_s=float("inf")).show()
    assert told == [f"the broker {address} does not answer; asking again for as long as it takes"]


@pytest.mark.parametrize("words", [["wait", "3"], ["log", "-f", "3"], ["follow", "3"], ["run", "ls"]])
def test_a_command_waits_for_an_absent_broker_as_long_as_it_is_told(
    home: Path, certificate: Certificate, words: list[str]
) -> None:
    address = closed_port()
    let_in(home, certificate.fingerprint, address)
    done = calls.grass(home, words[0], "--patient", "0.3s", "--broker", str(address), *words[1:])
    assert done.returncode == 4
    assert "tried for 0.3 s" in done.stderr


@pytest.mark.parametrize("text", ["soon", "-1s", ""])
def test_a_patience_that_is_no_duration_is_refused(home: Path, text: str) -> None:
    for verb in ("wait", "run"):
        done = calls.grass(home, verb, f"--patient={text}", "3")
        assert done.returncode == 2, done.stderr


NOT_NOW = reply(
    b'{"error": {"exit": 5, "message": "nothing can be stored now: no database"}}',
    status=503,
    headers={"Retry-After": 1},
)


@pytest.mark.parametrize("words", [["show", "--json"], ["hold", "3"], ["enqueue", "ls"]])
def test_a_store_that_is_away_is_waited_for_like_the_broker_itself(
    home: Path, certificate: Certificate, words: list[str]
) -> None:
    enqueued = reply(b"job 3 queued\n", headers={"Grass-Exit": "0", "Grass-Stdout": "13"})
    last = enqueued if words[0] == "enqueue" else document({"jobs": [], "count": 0, "ids": []})
    answers: list[Answer] = [NOT_NOW, NOT_NOW, NOT_NOW, last]
    with FakeBroker(certificate, lambda request: answers.pop(0)) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        done = calls.grass(home, words[0], "--broker", str(broker.address), *words[1:])
    assert done.returncode == 0, done.stderr
    assert "cannot use its store now; asking again for up to 30 s" in done.stderr
    assert len({request.body for request in broker.requests}) == 1
    assert len(broker.requests) == 4


def test_a_store_that_stays_away_is_refused_in_the_brokers_words(home: Path, certificate: Certificate) -> None:
    with FakeBroker(certificate, lambda request: NOT_NOW) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        with pytest.raises(StoreUnavailable, match="no database"), client(home, broker.address, away_s=SHORT_S) as mine:
            mine.show()
    assert len(broker.requests) > 1


def test_no_daemon_is_started_for_a_broker(home: Path, certificate: Certificate) -> None:
    address = closed_port()
    let_in(home, certificate.fingerprint, address)
    with pytest.raises(Unreachable):
        client(home, address, away_s=SHORT_S).show()
    assert not (home / "daemon.log").exists()
    assert not (home / "grass.sock").exists()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_is_exit_5_in_the_brokers_words(home: Path, certificate: Certificate, status: int) -> None:
    error = {"error": {"exit": 5, "message": "this token was revoked"}}
    with FakeBroker(certificate, lambda request: document(error, status=status)) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        for words in (["show"], ["enqueue", "ls"], ["run", "ls"]):
            done = calls.grass(home, words[0], "--broker", str(broker.address), *words[1:])
            assert (done.returncode, done.stderr) == (5, "grass: this token was revoked\n"), words


def test_a_refusal_without_words_is_exit_5_too(home: Path, certificate: Certificate) -> None:
    with FakeBroker(certificate, lambda request: reply(b"", status=401)) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        with pytest.raises(Refused, match="grass login"), client(home, broker.address) as mine:
            mine.show()


def test_a_dead_connection_is_noticed_while_a_log_is_silent(home: Path, broker: FakeBroker) -> None:
    place = remote_broker.open_broker(str(home), str(broker.address))
    connection, _ = place.open()
    try:
        assert connection.plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == tls.KEEPALIVE_IDLE_S
        assert connection.plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == tls.UNACKNOWLEDGED_MS
    finally:
        connection.close()


def test_a_connection_the_kernel_gave_up_is_broken_and_not_slow(
    home: Path, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from errno import ETIMEDOUT

    from grassq.net.http import Broken

    connection = Connection(remote_broker.open_broker(str(home), str(broker.address)))

    class Dead:
        def sendall(self, data: bytes) -> None:
            return

        def recv(self, size: int) -> bytes:
            raise OSError(ETIMEDOUT, os.strerror(ETIMEDOUT))

    connection.close()
    monkeypatch.setattr(connection, "_socket", Dead())
    with pytest.raises(Broken):
        connection.request("GET", "/v1/show")


def test_another_release_of_a_broker_is_not_remarked_upon(home: Path, certificate: Certificate) -> None:
    body = json.dumps({"jobs": []}).encode()
    with FakeBroker(certificate, lambda request: reply(body, version="9.9.9")) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        done = calls.grass(home, "show", "--broker", str(broker.address))
    assert (done.stdout, done.stderr, done.returncode) == ("no jobs\n", "", 0)
