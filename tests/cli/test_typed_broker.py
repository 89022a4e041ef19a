"""Commands that name a broker: which one they go to, and what of this machine they say there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, stored, stream
from tests.cli.fake_broker import Certificate, FakeBroker, let_in
from tests.cli.test_fast import HEAVY

from grassq.cli.main import main
from grassq.core.syntax.addresses import Address
from grassq.errors import BadInput
from grassq.net import broker_file
from grassq.sdk import Client as Sdk

CANARY = "canary-5f1e"


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


def take(request: Request) -> Answer:
    """A broker that takes whatever comes."""
    if request.target == "/v1/enqueue":
        return stored(b"7\n", Grass_Follow=7 if request.document["verb"] == "run" else "")
    if request.target.startswith("/v1/jobs/7/log"):
        return stream(b"hello\n", Grass_Attempt=1)
    if request.target == "/v1/submit":
        return document({"ids": [7]})
    if request.target == "/v1/create-queue":
        return document({"name": "q", "status": "created"})
    return document({"jobs": [{"id": 7, "state": "succeeded", "attempt": 1, "exit_code": 0}]})


@pytest.fixture
def taker(home: Path, certificate: Certificate) -> Iterator[FakeBroker]:
    with FakeBroker(certificate, take) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        yield broker


@pytest.mark.parametrize(
    "words",
    [
        ["enqueue", "--broker", "ADDRESS", "--gpu=1", "print", "a.pdf"],
        ["enqueue", "--gpu", "1", "--broker=ADDRESS", "print", "a.pdf"],
        ["run", "--broker", "ADDRESS", "--gpu=1", "print", "a.pdf"],
        ["create-queue", "q", "--worker", "box", "--broker=ADDRESS", "lpr"],
        ["create-queue", "--broker", "ADDRESS", "--worker=box", "q", "lpr"],
    ],
)
def test_nothing_of_this_machine_is_on_the_wire(
    home: Path, taker: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    place = tmp_path / CANARY
    place.mkdir()
    monkeypatch.setenv("SECRET", CANARY)
    monkeypatch.chdir(place)
    os.umask(0o027)
    done = calls.grass(home, *[word.replace("ADDRESS", str(taker.address)) for word in words])
    os.umask(0o022)
    assert done.returncode == 0, done.stderr
    assert CANARY.encode() not in taker.heard
    assert str(home).encode() not in taker.heard
    sent = taker.requests[0].document
    assert (sent["cwd"], sent.get("env", []), sent.get("umask", 0o022)) == ("/", [], 0o022)
    assert not any("--broker" in word for word in sent["words"])


def test_nothing_of_this_machine_is_on_the_wire_from_python(
    home: Path, taker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", CANARY)
    with Sdk(str(home), broker=str(taker.address)) as grass:
        assert grass.submit(["print", "a.pdf"], env={"A": "b"}).wait(timeout=10).state == "succeeded"
        grass.submit(["print"], cwd="/data", worker="box", labels=["a100"])
        with pytest.raises(BadInput, match="another machine"):
            grass.submit(["print"], cwd="data")
    assert CANARY.encode() not in taker.heard
    first, second = [request.document for request in taker.requests if request.target == "/v1/submit"]
    assert (first["cwd"], first["env"], first["umask"], first["jobs"][0]["env"]) == ("/", [], 0o022, [["A", "b"]])
    assert (second["cwd"], second["jobs"][0]["cwd"]) == ("/", "/data")
    assert (second["jobs"][0]["worker"], second["jobs"][0]["labels"]) == ("box", ["a100"])


def test_a_directory_that_is_gone_does_not_matter_to_a_broker(home: Path, taker: FakeBroker, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    script = str(calls.ROOT / "bin" / "grass")
    for verb in ("enqueue", "run"):
        gone.mkdir(exist_ok=True)
        argv = [sys.executable, "-c", program, script, verb, "--broker", str(taker.address), "ls"]
        done = subprocess.run(argv, cwd=gone, env=calls.environment(home), capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def test_run_and_sync_follow_the_job_there(home: Path, taker: FakeBroker) -> None:
    done = calls.grass(home, "run", "--broker", str(taker.address), "print")
    assert (done.stdout, done.returncode) == ("hello\n", 0)
    done = calls.grass(home, "follow", "--broker", str(taker.address), "7")
    assert (done.stdout, done.returncode) == ("hello\n", 0)


@pytest.mark.parametrize(
    ("typed", "variable", "used", "goes"),
    [
        (None, None, None, "local"),
        (None, None, "a", "a"),
        (None, "b", "a", "b"),
        ("b", "a", "a", "b"),
        ("local", "a", "a", "local"),
        (None, "local", "a", "local"),
        (None, "", "a", "a"),
        ("a", "local", None, "a"),
    ],
)
@pytest.mark.parametrize("verb", ["enqueue", "show", "run"])
def test_what_is_typed_comes_before_the_variable_and_that_before_use(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    typed: str | None,
    variable: str | None,
    used: str | None,
    goes: str,
) -> None:
    one, two = Certificate(tmp_path), Certificate(tmp_path)
    with FakeDaemon(home, take) as daemon, FakeBroker(one, take) as first, FakeBroker(two, take) as second:
        let_in(home, one.fingerprint, first.address)
        let_in(home, two.fingerprint, second.address)
        names = {"a": str(first.address), "b": str(second.address)}
        if variable is not None:
            monkeypatch.setenv("GRASS_BROKER", names.get(variable, variable))
        if used is not None:
            broker_file.choose(str(home), names[used])
        option = [] if typed is None else ["--broker", names.get(typed, typed)]
        done = calls.grass(home, verb, *option, *([] if verb == "show" else ["ls"]))
    assert done.returncode == 0, done.stderr
    asked = {"local": bool(daemon.requests), "a": bool(first.requests), "b": bool(second.requests)}
    assert asked == {name: name == goes for name in asked}


def test_an_option_behind_the_queue_is_left_to_the_daemon(home: Path) -> None:
    with FakeDaemon(home, lambda request: stored()) as daemon:
        calls.grass(home, "enqueue", "exp1", "--broker", "x", "--", "ls")
        calls.grass(home, "enqueue", "--", "--broker", "x")
    assert [request.document["words"] for request in daemon.requests] == [
        ["exp1", "--broker", "x", "--", "ls"],
        ["--", "--broker", "x"],
    ]


@pytest.mark.parametrize("words", [["--broker"], ["--broker=", "ls"], ["--broker", "a", "--broker", "b", "ls"]])
@pytest.mark.parametrize("verb", ["enqueue", "run"])
def test_a_broker_left_out_or_named_twice_is_exit_2(home: Path, verb: str, words: list[str]) -> None:
    done = calls.grass(home, verb, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("grass: --broker ")
    assert not (home / "daemon.log").exists()


def test_a_remote_enqueue_loads_no_more_than_it_needs(home: Path, taker: FakeBroker) -> None:
    path = f"import sys; sys.path.insert(0, {str(calls.ROOT / 'src')!r})"
    words = ["enqueue", "--broker", str(taker.address), "ls"]
    program = f"from grassq.cli.fast import main; main({words!r}); print(*sys.modules)"
    done = calls.python(home, "-I", "-S", "-c", f"{path}; {program}")
    loaded = done.stdout.split()
    assert loaded[0] == "7", done.stderr
    assert "_ssl" in loaded
    heavy = {"argparse", "rich", "msgspec", "asyncio", "aiohttp", "cryptography", "subprocess"}
    assert not set(loaded) & {*heavy, "ssl", "socket", "typing"}


def test_a_local_enqueue_with_brokers_known_loads_nothing_heavy(home: Path, certificate: Certificate) -> None:
    let_in(home, certificate.fingerprint, Address("my.server.com"))
    path = f"import sys; sys.path.insert(0, {str(calls.ROOT / 'src')!r})"
    program = "from grassq.cli.fast import main; main(['enqueue', '--broker', 'local', 'ls']); print(*sys.modules)"
    with FakeDaemon(home, lambda request: stored(b"7\n")):
        done = calls.python(home, "-I", "-S", "-c", f"{path}; {program}")
    loaded = done.stdout.split()
    assert loaded[0] == "7", done.stderr
    assert not set(loaded) & {*HEAVY.split(), "ssl", "hashlib"}


def test_queues_are_made_on_this_machine_unless_a_worker_is_named(
    home: Path, taker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRASS_BROKER", str(taker.address))
    with FakeDaemon(home, take) as daemon:
        assert calls.grass(home, "create-queue", "q", "lpr", "--worker", "x").returncode == 0
        assert calls.grass(home, "delete-queue", "q").returncode == 0
        assert taker.requests == []
        assert calls.grass(home, "create-queue", "q", "--env", "A=b", "--worker", "box", "lpr").returncode == 0
        assert calls.grass(home, "delete-queue", "q", "--worker", "box").returncode == 0
        done = calls.grass(home, "delete-queue", "q", "--broker", str(taker.address))
    assert (done.returncode, "--worker" in done.stderr) == (2, True)
    assert [request.target for request in daemon.requests] == ["/v1/create-queue", "/v1/delete-queue"]
    created, deleted = (request.document for request in taker.requests)
    assert created["words"] == ["q", "--env", "A=b", "--worker", "box", "lpr"]
    assert (deleted["name"], deleted["worker"]) == ("q", "box")
    assert "worker" not in daemon.requests[1].document


@pytest.mark.parametrize("words", [["use", "nosuch.invalid"], ["show", "--broker", "nosuch.invalid"]])
@pytest.mark.parametrize("number", [socket.EAI_NONAME, socket.EAI_AGAIN])
def test_a_name_that_cannot_be_looked_up_is_told_from_a_missing_token(
    words: list[str], number: int, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_such_name(host: str, *_: object, **__: object) -> None:
        raise socket.gaierror(number, "not found")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    assert main(words) == 4
    assert capfd.readouterr().err.startswith("grass: the name nosuch.invalid cannot be looked up")


@pytest.mark.parametrize("words", [["use", "localhost"], ["show", "--broker", "localhost"]])
def test_a_machine_without_a_token_for_it_says_so(
    words: list[str], home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 5
    assert capfd.readouterr().err.startswith("grass: no access to localhost:7500, because there is no token for it")
