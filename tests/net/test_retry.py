"""Requests survive what happens to connections."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.fake import Answer, FakeDaemon, Request, document, reply

from grassq.errors import BadInput, Refused, Unreachable
from grassq.net import http
from grassq.net.client import ApiClient
from grassq.net.retry import exchange, fetch


class Breaks:
    """Breaks the connection some times, then answers."""

    def __init__(self, times: int, answer: bytes) -> None:
        self.left, self.answer = times, answer

    def __call__(self, request: Request) -> Answer:
        self.left -= 1
        return None if self.left >= 0 else self.answer


def test_a_broken_request_is_repeated_with_the_same_key(home: Path) -> None:
    with FakeDaemon(home, Breaks(2, document({"jobs": []}))) as daemon, ApiClient(str(home)) as client:
        client.change("jobs/hold", selectors=["3"])
    keys = {request.document["key"] for request in daemon.requests}
    assert len(daemon.requests) == 3
    assert len(keys) == 1


def test_three_breaks_are_exit_4(home: Path) -> None:
    with FakeDaemon(home, Breaks(99, b"")) as daemon, ApiClient(str(home)) as client, pytest.raises(Unreachable):
        client.change("jobs/hold", selectors=["3"])
    assert len(daemon.requests) == 3


def test_half_an_answer_is_a_broken_connection(home: Path) -> None:
    whole = document({"version": "1"})
    answers = [whole[:-4].replace(b"Content-Length", b"content-length"), whole]
    with FakeDaemon(home, lambda request: answers.pop(0)) as daemon, ApiClient(str(home)) as client:
        assert client.info() == {"version": "1"}
    assert len(daemon.requests) == 2


def test_one_connection_serves_many_requests(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({})) as daemon, ApiClient(str(home)) as client:
        for _ in range(5):
            client.info()
    assert (len(daemon.requests), daemon.connections) == (5, 1)


def test_two_requests_have_two_keys(home: Path) -> None:
    with FakeDaemon(home, lambda request: document({})) as daemon, ApiClient(str(home)) as client:
        client.change("jobs/rerun", selectors=["1"])
        client.change("jobs/rerun", selectors=["1"])
    assert len({request.document["key"] for request in daemon.requests}) == 2


def test_chunks_are_put_together(home: Path) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nA: b\r\n\r\n"
    with FakeDaemon(home, lambda request: chunked):
        assert exchange(str(home), "GET", "/").body == b"hello world"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: \xb2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 2\xb20 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    ],
)
def test_nonsense_on_the_socket_is_exit_4(home: Path, answer: bytes) -> None:
    with FakeDaemon(home, lambda request: answer), pytest.raises(Unreachable):
        exchange(str(home), "GET", "/")


def test_an_answer_without_end_is_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_LIMIT", 1000)
    with FakeDaemon(home, lambda request: reply(b"x" * 2000)), pytest.raises(Unreachable, match="longer than"):
        exchange(str(home), "GET", "/")


def test_a_silent_daemon_is_exit_4_and_not_asked_twice(home: Path) -> None:
    import threading

    over = threading.Event()

    def silent(request: Request) -> Answer:
        over.wait(10)
        return None

    with FakeDaemon(home, silent) as daemon:
        with pytest.raises(Unreachable, match="not answered in time"):
            fetch(str(home), "/", timeout_s=0.05)
        over.set()
    assert len(daemon.requests) == 1


def test_the_daemons_sentence_and_exit_code_arrive(home: Path) -> None:
    error = {"error": {"exit": 2, "message": "no such amount"}}
    with (
        FakeDaemon(home, lambda request: document(error, status=400)),
        ApiClient(str(home)) as client,
        pytest.raises(BadInput, match=r"^no such amount$"),
    ):
        client.change("pause", queue="q")


def test_no_daemon_is_exit_4_where_none_may_be_started(home: Path) -> None:
    with ApiClient(str(home), autostart=False) as client, pytest.raises(Unreachable, match="grass start"):
        client.info()


def test_a_home_deeper_than_a_socket_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with FakeDaemon(deep, lambda request: document({"deep": True})), ApiClient(str(deep)) as client:
        assert client.info() == {"deep": True}


def test_nothing_is_sent_into_a_strangers_home(home: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    with FakeDaemon(home, lambda request: document({})) as daemon:
        os.chown(home, 12345, -1)
        with pytest.raises(Refused, match="belongs to uid 12345"):
            exchange(str(home), "GET", "/")
        os.chown(home, 0, -1)
    assert daemon.requests == []
