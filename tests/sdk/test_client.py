"""Grass from Python."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from time import monotonic

import pytest
from tests.cli.fake import Answer, FakeDaemon, Request, document, stream
from tests.cli.fake_broker import Certificate, FakeBroker, let_in

from grassq.errors import BadInput, GrassError
from grassq.net.client import SUBMIT_AT_ONCE
from grassq.sdk import Client, JobFailed


class Queue:
    """Takes jobs and lets each end in a given way at the first wait."""

    def __init__(self, **end: object) -> None:
        self.end = end
        self.state = "running"

    def __call__(self, request: Request) -> Answer:
        path = request.target.split("?")[0]
        if path == "/v1/submit":
            return document({"ids": [8], "warnings": []})
        if path == "/v1/jobs/8/log":
            return stream(b"hello\n")
        if path == "/v1/wait":
            self.state = str(self.end["state"])
        job = {"id": 8, **self.end, "state": self.state}
        return document({"done": True, "jobs": [job]})


def test_a_job_is_submitted_as_asked(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded")) as daemon, Client(str(home)) as client:
        job = client.submit(["echo", b"\xff"], gpu=0.5, request={"printer": 1}, name="x", env={"A": "b"}, queue="q")
    assert job.id == 8
    [sent] = daemon.requests[0].document["jobs"]
    assert sent["command"] == ["echo", {"b64": "/w=="}]
    assert sent["request"] == {"printer": 1, "gpu": 0.5}
    assert (sent["shell"], sent["queue"], sent["name"], sent["env"]) == (False, "q", "x", [["A", "b"]])
    assert daemon.requests[0].document["cwd"] == str(Path.cwd())


def test_a_string_is_a_shell_line(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded")) as daemon, Client(str(home)) as client:
        client.submit("echo $A | wc", cwd="/tmp")
    sent = daemon.requests[0].document
    assert (sent["jobs"][0]["command"], sent["jobs"][0]["shell"], sent["cwd"]) == (["echo $A | wc"], True, "/tmp")


def test_result_is_the_exit_code(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded", exit_code=0)), Client(str(home)) as client:
        job = client.submit(["true"])
        assert not job.done()
        assert job.result(timeout=5) == 0
        assert job.done()
        assert job.log() == b"hello\n"


def test_a_failed_job_raises(home: Path) -> None:
    with (
        FakeDaemon(home, Queue(state="failed", exit_code=3)),
        Client(str(home)) as client,
        pytest.raises(JobFailed, match="job 8 failed: exit code 3") as caught,
    ):
        client.submit(["false"]).result()
    assert caught.value.code == 3
    assert isinstance(caught.value, GrassError)


def test_waiting_has_an_end(home: Path) -> None:
    with FakeDaemon(home, Queue(state="running")), Client(str(home)) as client, pytest.raises(TimeoutError):
        client.submit(["sleep", "9"]).wait(timeout=0.05)


@pytest.mark.parametrize("command", [[], "", "  ", [""], b"ls", ["a", 3]])
def test_what_is_no_command_is_refused_before_it_is_sent(home: Path, command: object) -> None:
    with pytest.raises(BadInput):
        Client(str(home)).submit(command)  # type: ignore[arg-type]


def test_a_forked_child_has_a_connection_of_its_own(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded")) as daemon, Client(str(home)) as client:
        client.jobs()
        child = os.fork()
        if not child:
            client.jobs()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        client.jobs()
    assert status == 0
    assert (daemon.connections, len(daemon.requests)) == (2, 3)


class Slow(Queue):
    """Answers a wait only when a job was submitted."""

    def __init__(self) -> None:
        super().__init__(state="succeeded")
        self.asked, self.submitted = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Answer:
        if request.target.startswith("/v1/wait"):
            self.asked.set()
            self.submitted.wait(10)
        answer = super().__call__(request)
        if request.target == "/v1/submit":
            self.submitted.set()
        return answer


def test_a_thread_that_waits_is_in_nobodys_way(home: Path) -> None:
    slow = Slow()
    with FakeDaemon(home, slow), Client(str(home)) as client:
        waiter = threading.Thread(target=client.wait, args=(8,), daemon=True)
        waiter.start()
        assert slow.asked.wait(10)
        began = monotonic()
        client.submit(["true"])
        assert monotonic() - began < 5
        waiter.join(10)
        assert not waiter.is_alive()


def test_a_child_forked_during_a_request_can_make_its_own(home: Path) -> None:
    asked, forked = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        if not asked.is_set():
            asked.set()
            forked.wait(10)
        return document({"jobs": []})

    with FakeDaemon(home, answer), Client(str(home)) as client:
        busy = threading.Thread(target=client.jobs, daemon=True)
        busy.start()
        assert asked.wait(10)
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)  # a deadlock ends as a signal, not as a hung test
            client.jobs()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        forked.set()
        busy.join(10)
    assert status == 0


@pytest.mark.parametrize("fails", [False, True])
def test_many_jobs_go_to_a_broker_in_parts(home: Path, tmp_path: Path, fails: bool) -> None:
    certificate, key = Certificate(tmp_path), "0" * 32

    def takes_parts(request: Request) -> Answer:
        sent = request.document["commands"]
        if fails and sent[0] != ["true", "0"]:
            return document({"error": {"exit": 2, "message": "commands[0]: no"}}, status=400)
        return document({"first": 100 + int(sent[0][1]), "count": len(sent)})

    with FakeBroker(certificate, takes_parts) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        commands = [["true", str(number)] for number in range(SUBMIT_AT_ONCE + 1)]
        with Client(str(home), broker=str(broker.address)) as client:
            if fails:
                with pytest.raises(BadInput, match=r"commands\[0\]: no; of 2,001 jobs the first 2,000 are stored"):
                    client.submit_many(commands, key=key)
            else:
                jobs = client.submit_many(commands, key=key)
                assert [job.id for job in jobs] == list(range(100, 100 + len(commands)))
                assert client.submit_many(commands, key=key)[-1].id == jobs[-1].id
    keys = [request.document["key"] for request in broker.requests]
    assert keys[0] == key and len(set(keys)) == 2, "a repeated call has the same keys"
