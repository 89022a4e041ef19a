"""Grass from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.fake import Answer, FakeDaemon, Request, document, stream

from grassq.errors import BadInput, GrassError
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
    import os

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
