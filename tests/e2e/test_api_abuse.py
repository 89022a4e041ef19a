"""What no command line of ours would send: the daemon answers with a sentence, stores nothing and lives on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.world import Grass

KEY = "0123456789abcdef" * 2
GOOD: dict[str, Any] = {
    "jobs": [{"command": ["true"]}],
    "cwd": "/",
    "env": [["PATH", "/bin:/usr/bin"]],
    "umask": 18,
    "key": KEY,
}


@contextlib.contextmanager
def connection(grass: Grass) -> Iterator[socket.socket]:
    directory = os.open(grass.home, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.settimeout(30)
        opened.connect(f"/proc/self/fd/{directory}/grass.sock")
        os.close(directory)
        yield opened


def ask(grass: Grass, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request by hand; its status and body."""
    head = f"{method} {target} HTTP/1.0\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connection(grass) as opened:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            opened.sendall(head + body)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := opened.recv(1 << 16):
                answer += part
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), rest


@pytest.fixture
def served(grass: Grass) -> Iterator[Grass]:
    """A daemon that must be the same afterwards, with no job stored."""
    grass.ok("start")
    pid = grass.daemon_pid()
    yield grass
    assert grass.daemon_pid() == pid
    assert grass.json("show", "all")["jobs"] == []


def last_trouble(grass: Grass) -> list[str]:
    """The end of the newest traceback in the daemon's log; a request that can be parsed must never leave one."""
    log = (grass.home / "daemon.log").read_text(errors="replace")
    return log.splitlines()[-3:] if "Traceback" in log else []


def changed(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def job(**changes: object) -> bytes:
    return changed(jobs=[{"command": ["true"], **changes}])


DEEP = b"[" * 100_000 + b"]" * 100_000
BODIES = {
    "empty": b"",
    "not json": b"hello",
    "not an object": b"[]",
    "not utf-8": b'{"jobs": "\xff"}',
    "deep": DEEP,
    "deep command": changed()[:-1] + b', "extra": ' + DEEP + b"}",
    "no jobs": changed(jobs=[]),
    "jobs of another kind": changed(jobs="true"),
    "too many jobs": changed(jobs=[{"command": ["true"]}] * 200_000),
    "no key": changed(key=""),
    "short key": changed(key="abc"),
    "strange key": changed(key="g" * 32),
    "number as key": changed(key=7),
    "relative cwd": changed(cwd="tmp"),
    "empty cwd": changed(cwd=""),
    "bad base64": changed(cwd={"b64": "*"}),
    "env of one": changed(env=[["A"]]),
    "env with equals": changed(env=[["A=B", "c"]]),
    "env without name": changed(env=[["", "c"]]),
    "nul in env": changed(env=[["A", "b\0"]]),
    "empty command": job(command=[]),
    "empty word first": job(command=[""]),
    "number as word": job(command=["true", 7]),
    "nul in word": job(command=["true", "\0"]),
    "missing program": job(command=["nosuchprogram"]),
    "huge priority": job(priority=10**30),
    "large priority": job(priority=1 << 62),
    "text as priority": job(priority="soon"),
    "no tries": job(tries=0),
    "many tries": job(tries=10**12),
    "negative grace": job(grace_s=-1),
    "endless grace": job(grace_s=1e300),
    "unknown on_lost": job(on_lost="retry"),
    "bad name": job(name="17"),
    "reserved name": job(name="running"),
    "bad queue": job(queue="no such\nqueue"),
    "negative amount": job(request={"gpu": -1}),
    "huge amount": job(request={"gpu": 10**30}),
    "tiny amount": job(request={"gpu": 1e-9}),
    "list as amount": job(request={"gpu": [1]}),
    "reserved resource": job(request={"job_id": 1}),
    "shell of two": job(command=["a", "b"], shell=True),
}


def test_a_strange_submission_is_answered_with_a_sentence(served: Grass) -> None:
    for what, body in BODIES.items():
        status, answer = ask(served, "POST", "/v1/submit", body)
        assert 400 <= status < 500, (what, status, answer)
        error = json.loads(answer)["error"]
        assert error["exit"] in (2, 3, 5) and "\n" not in error["message"], (what, error)
        assert served.jobs() == [], what
    assert last_trouble(served) == []


def test_a_strange_enqueue_is_answered_with_a_sentence(served: Grass) -> None:
    good = {"words": ["true"], "cwd": "/", "env": [["PATH", "/bin"]], "umask": 18, "key": KEY, "verb": "enqueue"}
    wrong: tuple[dict[str, object], ...] = (
        {"words": "true"},
        {"words": [7]},
        {"verb": "explode"},
        {"key": ""},
        {"cwd": 7},
        {"env": {}},
    )
    for changes in wrong:
        status, answer = ask(served, "POST", "/v1/enqueue", json.dumps({**good, **changes}).encode())
        assert status < 500 and answer.startswith(b"grass: ") and answer.count(b"\n") == 1, (changes, status, answer)
    assert last_trouble(served) == []


@pytest.mark.parametrize("verb", ["kill", "rerun", "hold", "release", "priority", "clean"])
def test_a_strange_change_is_answered_with_a_sentence(served: Grass, verb: str) -> None:
    for body in (b"", b"{}", b'{"selectors": "all"}', b'{"selectors": [], "key": "' + KEY.encode() + b'"}'):
        status, answer = ask(served, "POST", f"/v1/jobs/{verb}", body)
        assert 400 <= status < 500 and json.loads(answer)["error"]["exit"] == 2, (body, status, answer)


def test_strange_questions_are_answered_with_a_sentence(served: Grass) -> None:
    for target in (
        "/x", "/v2/show", "/v1/jobs/1/log?offset=x", "/v1/jobs/99999999999999999999/log", "/v1/jobs/7/log", "/v1/wait",
        "/v1/wait?selector=all&timeout_s=nan", "/v1/show?selector=", "/v1/show?selector=%00", "/v1/why",
        "/v1/show?selector=" + "1," * 2000, "/v1/wait?selector=all&timeout_s=x",
    ):  # fmt: skip
        status, answer = ask(served, "GET", target)
        assert 400 <= status < 500, (target, status, answer)
        assert json.loads(answer)["error"]["message"], target
    assert ask(served, "DELETE", "/v1/show")[0] == 405
    assert last_trouble(served) == []


def test_bytes_that_are_no_request_do_no_harm(served: Grass) -> None:
    dice = random.Random(11)
    for size in (0, 1, 100, 10_000, 300_000):
        with connection(served) as opened, contextlib.suppress(OSError):
            opened.sendall(dice.randbytes(size))
            opened.shutdown(socket.SHUT_WR)
            while opened.recv(1 << 16):
                pass
    with connection(served) as half:
        half.sendall(b"POST /v1/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert served.jobs() == []


def test_a_body_without_end_is_refused(served: Grass) -> None:
    with connection(served) as opened, contextlib.suppress(OSError):
        opened.sendall(b"POST /v1/submit HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        for _ in range(200):
            opened.sendall(b"x" * (1 << 20))
    assert served.jobs() == []
