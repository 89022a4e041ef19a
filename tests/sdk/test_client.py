"""Grass from Python."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from decimal import Decimal
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Any

import pytest
from tests.cli.fake import Answer, FakeDaemon, Request, document, stream
from tests.cli.fake_broker import Certificate, FakeBroker, let_in

import grassq
from grassq.errors import BadInput, GrassError, Refused, Unreachable
from grassq.net.client import SUBMIT_AT_ONCE
from grassq.sdk import Client, Job, JobFailed, JobList


class Queue:
    """Takes jobs and lets each end in a given way when the client begins to hear of ends."""

    def __init__(self, **end: object) -> None:
        self.end = end
        self.state = "running"

    def __call__(self, request: Request) -> Answer:
        path = request.target.split("?")[0]
        if path == "/v1/submit":
            return document({"ids": [8], "warnings": []})
        if path == "/v1/jobs/8/log":
            return stream(b"hello\n")
        if path == "/v1/events":
            self.state = str(self.end["state"])
            return stream(b'{"event": "subscribed", "epoch": "e", "seq": 1}\n')
        job = {"id": 8, "name": None, "queue": "default", "exit_code": None, **self.end, "state": self.state}
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


def test_result_is_what_the_job_wrote_to_its_result_file(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded", exit_code=0, result={"loss": 0.5})), Client(str(home)) as client:
        job = client.submit(["true"])
        assert not job.done()
        assert job.result(timeout=5) == {"loss": 0.5}
        assert (job.done(), job.exit_code) == (True, 0)
        assert (job.log(), job.log_bytes()) == ("hello\n", b"hello\n")


def test_a_failed_job_raises(home: Path) -> None:
    with (
        FakeDaemon(home, Queue(state="failed", exit_code=3)),
        Client(str(home)) as client,
        pytest.raises(JobFailed, match=r"job 8 failed: exit code 3\n  \| hello") as caught,
    ):
        client.submit(["false"]).result()
    assert (caught.value.code, caught.value.reason, caught.value.log_tail) == (3, "exit code 3", "hello\n")
    assert isinstance(caught.value, GrassError)


def test_waiting_has_an_end(home: Path) -> None:
    with FakeDaemon(home, Queue(state="running")), Client(str(home)) as client:
        job = client.submit(["sleep", "9"])
        with pytest.raises(TimeoutError, match=r"^job 8 has not ended after 0\.05 s$"):
            job.wait(timeout=0.05)
        assert grassq.wait([job], timeout=0.05) == (set(), {job})
        with pytest.raises(TypeError, match="8 is not a Job"):
            grassq.wait([8])  # type: ignore[list-item]


@pytest.mark.parametrize("command", [[], "", "  ", [""], b"ls", ["a", None], ["a", ["b"]], ["a", 1j]])
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
    """Tells of ends only when a job was submitted."""

    def __init__(self) -> None:
        super().__init__(state="succeeded")
        self.asked, self.submitted = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Answer:
        if request.target.startswith("/v1/events"):
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


def sent_by(home: Path, command: object, **options: object) -> dict[str, Any]:
    """What a client sends for a submission."""
    with FakeDaemon(home, Queue(state="succeeded")) as daemon, Client(home) as client:
        client.submit(command, **options)  # type: ignore[arg-type]
    sent: dict[str, Any] = daemon.requests[0].document["jobs"][0]
    return sent


def test_numbers_and_paths_are_words(home: Path) -> None:
    sent = sent_by(home, ["train", "--lr", 0.1, 1e-05, 3, True, Decimal("0.10"), Path("/data")], env={"SEED": 7})
    assert sent["command"] == ["train", "--lr", "0.1", "1e-05", "3", "True", "0.10", "/data"]
    assert sent["env"] == [["SEED", "7"]]


def test_shell_says_how_a_string_is_meant(home: Path) -> None:
    assert sent_by(home, "a b", shell=False)["shell"] is False
    assert sent_by(home, "a b", shell=True)["shell"] is True
    with pytest.raises(BadInput, match=r"shlex\.join"):
        Client(home).submit(["a", "b"], shell=True)


def test_amounts_of_every_common_resource_have_a_keyword(home: Path) -> None:
    sent = sent_by(home, ["a"], gpu=Decimal("0.5"), cpu=2, mem="4G", vram="8G", disk="1T", request={"printer": 1})
    assert sent["request"] == {"printer": 1, "gpu": "0.5", "cpu": 2, "mem": "4G", "vram": "8G", "disk": "1T"}


def test_an_unknown_keyword_is_answered_with_the_right_one(home: Path) -> None:
    with pytest.raises(TypeError, match=r"no argument 'gpus'; did you mean gpu\? .* request=\{'gpus': 1\}"):
        Client(home).submit(["true"], gpus=1)  # type: ignore[call-arg]


def test_a_python_function_is_answered_with_the_way_to_run_one(home: Path) -> None:
    with pytest.raises(TypeError, match="a job is a command, not a Python function"):
        Client(home).submit(max, 1, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"submit takes one command: submit\(\['echo', 'a'\]\)"):
        Client(home).submit("echo", "a")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="submit takes one"):
        Client(home).submit_many("echo")


def test_a_closed_client_refuses(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded")) as daemon:
        with Client(home) as client:
            job = client.submit(["true"])
        for request in (
            client.jobs,
            job.done,
            job.log,
            lambda: client.submit(["true"]),
            lambda: job.add_done_callback(print),
        ):
            with pytest.raises(Refused, match="this client is closed"):
                request()
        assert len(daemon.requests) == 1
        assert repr(job) == "<Job 8 submitted>"


def test_handles_of_one_job_are_equal_and_survive_pickling(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded")), Client(home) as client, Client(home) as other:
        job, same = client.submit(["true"]), other.job(8)
        assert job == same and len({job, same}) == 1
        [copy, again] = pickle.loads(pickle.dumps([job, job]))
        assert copy == job and copy.state == "running"
        assert copy is again
        assert job != 8
        elsewhere = Job(Client(home / "elsewhere", broker="local"), {"id": 8})
        assert job != elsewhere
        with pytest.raises(BadInput, match=r"job 8 is at .*elsewhere"):
            client.kill(elsewhere)


def test_jobs_are_named_by_handles_ids_selectors_and_lists_of_them(home: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.target == "/v1/submit":
            return document({"ids": [8], "warnings": []})
        return document({"count": 1, "ids": [8], "jobs": [], "notes": []})

    with FakeDaemon(home, answer) as daemon, Client(home) as client:
        job = client.submit(["true"])
        assert client.hold(job, [4, 5], "failed") == [job]
        assert client.kill([]) == client.hold(iter(())) == []
        assert client.priority([job], 50) == [job]
        assert client.clean(older_s=60) == 1
        with pytest.raises(TypeError, match="is not a job"):
            client.kill(1.5)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="say which ended jobs"):
            client.clean()
    assert [request.document.get("selectors") for request in daemon.requests[1:]] == [
        ["4-5,8", "failed"],
        ["8"],
        ["all"],
    ]


def test_what_is_foreign_is_shown_without_control_characters_and_markup(home: Path) -> None:
    evil = "<script>\x1b[2J\u202e"
    info = {"id": 8, "name": evil, "queue": evil, "state": "running", "command": [evil], "shell": False}

    def answer(request: Request) -> Answer:
        if request.target.startswith("/v1/jobs"):
            return document({"jobs": [info]})
        return document({"error": {"message": evil, "exit": 5}}, status=409)

    with FakeDaemon(home, answer), Client(home) as client:
        job = client.job(8)
        shown = [repr(job), repr(JobList([job])), job._repr_html_(), JobList([job])._repr_html_()]
        with pytest.raises(Refused) as refusal:
            client.pause()
    assert all(text.isprintable() for text in [*shown, str(refusal.value)])
    assert all("<script" not in text for text in shown[2:])
    assert "&lt;script&gt;" in shown[2]


def test_a_list_of_jobs_is_shown_as_a_table_with_one_request(home: Path) -> None:
    infos = [{"id": id_, "state": "succeeded", "queue": "q", "command": ["echo", "a b"]} for id_ in (8, 9)]

    def answer(request: Request) -> Answer:
        if request.target == "/v1/submit-many":
            return document({"first": 8, "count": 2, "warnings": []})
        return document({"jobs": infos})

    with FakeDaemon(home, answer) as daemon, Client(home) as client:
        jobs = client.submit_many([["echo", "a b"]] * 2)
        assert (
            "<td>8</td><td></td><td>q</td><td>succeeded</td><td></td><td>echo &#x27;a b&#x27;</td>"
            in jobs._repr_html_()
        )
        assert repr(jobs) == "[<Job 8 succeeded in q>, <Job 9 succeeded in q>]"
        assert isinstance(jobs[:1], JobList) and jobs[0].state == "succeeded"
        assert len(daemon.requests) == 2


def test_to_show_a_job_neither_fails_nor_starts_a_daemon(home: Path) -> None:
    with FakeDaemon(home, Queue(state="succeeded")):
        client = Client(home)
        job = client.submit(["true"])
        assert repr(job) == "<Job 8 running in default>"
        assert list(job.__rich_repr__()) == [("id", 8), ("state", "running"), ("queue", "default")]
    assert repr(job) == "<Job 8 running in default>"
    client.close()
    assert not (home / "daemon.log").exists()


def test_a_callback_cannot_wait_for_another_job(home: Path) -> None:
    heard: SimpleQueue[BaseException] = SimpleQueue()

    def wait_for_another(job: Job) -> None:
        try:
            client.wait(9)
        except RuntimeError as error:
            heard.put(error)

    class Two(Queue):
        def __call__(self, request: Request) -> Answer:
            if "selector=9" in request.target:
                return document({"jobs": [{"id": 9, "state": "running"}]})
            return super().__call__(request)

    with FakeDaemon(home, Two(state="succeeded")), Client(home) as client:
        client.submit(["true"]).add_done_callback(wait_for_another)
        assert "cannot wait for another job" in str(heard.get(timeout=10))


def test_closing_a_client_ends_its_futures_and_its_thread(home: Path) -> None:
    never = threading.Event()

    class Silent(Queue):
        def __call__(self, request: Request) -> Answer:
            if request.target.startswith("/v1/events"):
                never.wait(10)
                return None
            return super().__call__(request)

    with FakeDaemon(home, Silent(state="succeeded")):
        client = Client(home)
        future = client.submit(["true"]).future()
        client.close()
        with pytest.raises(Refused, match="this client is closed"):
            future.result(timeout=10)
        never.set()


@pytest.mark.parametrize(
    "line", [b'{"event": "exited", "state": "failed"}', b'{"job": [], "state": "failed"}', b"[1]", b"?"]
)
def test_a_daemon_that_tells_nonsense_is_an_error_and_no_endless_wait(home: Path, line: bytes) -> None:
    class Mad(Queue):
        def __call__(self, request: Request) -> Answer:
            if request.target.startswith("/v1/events"):
                return stream(line + b"\n")
            return super().__call__(request)

    with FakeDaemon(home, Mad(state="succeeded")), Client(home) as client:
        job = client.submit(["true"])
        with pytest.raises((Unreachable, TimeoutError)):
            job.wait(timeout=2)
