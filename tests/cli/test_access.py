"""Coming in: codes and tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document
from tests.cli.fake_broker import (
    STORE_ID,
    TOKEN,
    Certificate,
    FakeBroker,
    closed_port,
    code_for,
    let_in,
)

from grassq.cli.main import main
from grassq.core.syntax.addresses import Address
from grassq.net import broker as remote_broker
from grassq.net import broker_file

Grass = Callable[..., calls.Done]


class CodeBook:
    """A broker's answer to codes: each is taken once, and the same secret for it again."""

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        self.broken = 0

    def __call__(self, request: Request) -> Answer:
        if request.target != "/v1/redeem":
            return document({"jobs": []})
        asked = request.document
        if self.taken.setdefault(asked["code"], asked["digest"]) != asked["digest"]:
            return document({"error": {"exit": 5, "message": "this code was used already"}}, status=409)
        if self.broken:
            self.broken -= 1
            return None
        scope = "worker" if asked["kind"] == "worker" else "submit"
        given = {"token": "0a1b2c3d", "scope": scope, "name": asked["name"], "store_id": STORE_ID, "queues": None}
        return document(given)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


@pytest.fixture
def codes() -> CodeBook:
    return CodeBook()


@pytest.fixture
def broker(certificate: Certificate, codes: CodeBook) -> Iterator[FakeBroker]:
    with FakeBroker(certificate, codes) as broker:
        yield broker


def test_login_keeps_address_fingerprint_and_token(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    done = grass("login", code_for(certificate, broker.address), "--name", "ann")
    assert done.returncode == 0, done.stderr
    assert f"grass use {broker.address}" in done.stdout
    [entry] = broker_file.load(str(home)).entries
    assert (entry.addresses, entry.fingerprint, entry.store_id) == ([broker.address], certificate.key_pin, STORE_ID)
    assert entry.login is not None and entry.worker is None
    id_, _, secret = entry.login.token.partition(".")
    assert (id_, entry.login.name, entry.login.scope) == ("0a1b2c3d", "ann", "submit")
    [sent] = broker.requests
    assert sent.document == {
        "code": "c0de0001", "secret": "q" * 43, "digest": hashlib.sha256(secret.encode()).hexdigest(),
        "kind": "login", "name": "ann",
    }  # fmt: skip
    assert len(secret) == 43 and secret.encode() not in broker.heard
    assert "authorization" not in sent.headers
    assert secret not in done.stdout + done.stderr
    # And from then on nothing more is needed.
    assert grass("show", "--broker", str(broker.address)).returncode == 0
    assert broker.requests[-1].headers["authorization"] == f"Bearer {entry.login.token}"


def test_join_says_what_to_type_next_and_the_daemon_finds_it(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    done = grass("join", code_for(certificate, broker.address))
    assert done.returncode == 0, done.stderr
    assert f"grass daemon --no-broker --connect {broker.address}" in done.stdout
    found = remote_broker.credential(str(home), [broker.address], "worker")
    assert found.token.startswith("0a1b2c3d.") and found.scope == "worker"
    assert [each.addresses for each in remote_broker.joined(str(home))] == [[broker.address]]


def test_of_a_code_that_was_refused_no_secret_is_kept(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker, codes: CodeBook
) -> None:
    codes.taken["c0de0001"] = "somebody else's"
    assert grass("login", code_for(certificate, broker.address, id="c0de0001")).returncode == 5
    assert broker_file.load(str(home)).pending == {}


def test_a_machine_that_joins_again_names_the_token_it_has_unless_it_says_that_it_comes_as_another(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    assert grass("join", code_for(certificate, broker.address), "--name", "box").returncode == 0
    assert grass("join", code_for(certificate, broker.address, id="c0de0002")).returncode == 0
    assert grass("join", "--again", code_for(certificate, broker.address, id="c0de0003")).returncode == 0
    named = [json.loads(request.body).get("holds", {}).keys() for request in broker.requests]
    assert named == [set(), {"0a1b2c3d"}, set()]


def test_joining_and_logging_in_are_one_entry(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    assert grass("join", code_for(certificate, broker.address)).returncode == 0
    assert grass("login", code_for(certificate, broker.address, id="c0de0002")).returncode == 0
    [entry] = broker_file.load(str(home)).entries
    assert entry.login is not None and entry.worker is not None


def test_a_code_whose_answer_was_lost_can_be_used_again(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker, codes: CodeBook
) -> None:
    codes.broken = 2
    assert grass("login", code_for(certificate, broker.address)).returncode == 0
    assert len({request.document["digest"] for request in broker.requests}) == 1


def test_a_login_that_crashed_before_it_wrote_the_token_is_made_good_by_another(
    home: Path, certificate: Certificate, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grassq.net import redeem

    code = code_for(certificate, broker.address)
    with monkeypatch.context() as patch:
        patch.setattr(redeem, "read_answer", lambda response: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            redeem.redeem(str(home), code, "login", name="ann")
    assert broker_file.load(str(home)).entries == []
    assert redeem.redeem(str(home), code, "login", name="ann").name == "ann"
    assert broker_file.load(str(home)).pending == {}


def test_a_used_code_is_refused_in_the_brokers_words(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker, codes: CodeBook
) -> None:
    codes.taken["c0de0001"] = "of somebody else"
    done = grass("login", code_for(certificate, broker.address))
    assert done.returncode == 5 and done.stderr.endswith("\ngrass: this code was used already\n")
    assert broker_file.load(str(home)).entries == []


def test_the_first_contact_is_pinned_too(home: Path, tmp_path: Path, grass: Grass, broker: FakeBroker) -> None:
    other = Certificate(tmp_path)
    done = grass("login", code_for(other, broker.address))
    assert (done.returncode, other.fingerprint.hex() in done.stderr) == (5, True)
    assert broker.heard == b""


def test_behind_a_nat_the_address_is_typed(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    inside = closed_port()
    typed = f"localhost:{broker.port}"
    assert grass("login", code_for(certificate, inside), "--broker", typed).returncode == 0
    [entry] = broker_file.load(str(home)).entries
    assert entry.addresses == [Address("localhost", broker.port), inside]


def test_the_addresses_in_a_code_are_tried_in_turn(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    dead = closed_port()
    assert grass("login", code_for(certificate, dead, broker.address)).returncode == 0
    [entry] = broker_file.load(str(home)).entries
    assert entry.addresses == [broker.address, dead]


def test_a_new_certificate_takes_the_address_but_not_the_tokens(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    kept = Address("also.known.as")
    let_in(home, b"o" * 32, broker.address, worker="old.worker")
    let_in(home, b"k" * 32, kept)
    code = code_for(certificate, broker.address, kept)
    assert grass("login", code).returncode == 0
    entries = {entry.fingerprint: entry for entry in broker_file.load(str(home)).entries}
    assert entries.keys() == {certificate.key_pin, b"k" * 32}
    fresh = entries[certificate.key_pin]
    assert (fresh.addresses, fresh.worker) == ([broker.address], None)
    assert entries[b"k" * 32].addresses == [kept], "what a code says of other machines is not believed"


@pytest.mark.parametrize(
    "words", [["join", "hello"], ["login", "grass1.xyz"], ["login"], ["login", "a", "--broker", "b c"]]
)
def test_what_is_no_code_is_exit_2(home: Path, words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_use_makes_every_command_remote_until_it_is_local_again(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    let_in(home, certificate.fingerprint, broker.address)
    assert grass("use").stdout == "commands go to this machine's own daemon\n"
    done = grass("use", str(broker.address))
    assert done.stdout.startswith(f"commands go to {broker.address} (`grass use`)")
    assert grass("show").stdout == "no jobs\n"
    assert len(broker.requests) == 1
    assert json.loads(grass("use", "--json").stdout) == {"broker": str(broker.address), "named_by": "grass use"}
    assert grass("use", "local").returncode == 0
    with FakeDaemon(home, lambda request: document({"jobs": []})) as daemon:
        grass("show")
    assert (len(daemon.requests), len(broker.requests)) == (1, 1)


def test_use_recognises_another_name_of_a_known_broker(
    home: Path, grass: Grass, certificate: Certificate, broker: FakeBroker
) -> None:
    let_in(home, certificate.fingerprint, broker.address)
    assert grass("use", f"localhost:{broker.port}").returncode == 0
    [entry] = broker_file.load(str(home)).entries
    assert entry.addresses == [broker.address, Address("localhost", broker.port)]


def test_use_of_a_broker_one_may_not_use_is_refused_and_changes_nothing(home: Path, grass: Grass) -> None:
    done = grass("use", "localhost")
    assert (done.returncode, "grass login" in done.stderr) == (5, True)
    assert not (home / "broker").exists()


def test_use_says_when_the_variable_comes_first(home: Path, grass: Grass, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(home, b"x" * 32, Address("my.server.com"))
    monkeypatch.setenv("GRASS_BROKER", "other.server.com")
    done = grass("use", "my.server.com")
    assert "other.server.com (GRASS_BROKER)" in done.stdout
    assert "comes before" in done.stderr


TOKENS = {
    "tokens": [
        {"id": "0a1b2c3d", "scope": "submit", "name": "ann", "queues": ["print"], "bare": True, "is_code": False,
         "created": "2026-11-15T10:00:00Z", "expires": None, "ended": None, "live": True},
        {"id": "11111111", "scope": "worker", "name": "box", "queues": None, "bare": False, "is_code": True,
         "created": "2026-11-15T10:00:00Z", "expires": "2026-11-15T11:00:00Z", "ended": None, "live": False},
    ]
}  # fmt: skip


def test_tokens_are_listed(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document(TOKENS)) as daemon:
        done = grass("token")
        assert grass("token", "list", "-q").stdout == "0a1b2c3d\n11111111\n"
    assert daemon.requests[0].target == "/v1/tokens"
    header, first, second = done.stdout.splitlines()
    assert header.split() == ["ID", "KIND", "SCOPE", "NAME", "QUEUES", "JOBS", "STATE", "CREATED", "EXPIRES"]
    assert first.split()[:4] == ["0a1b2c3d", "token", "submit", "ann"] and "print (any program)" in first
    assert second.split()[:5] == ["11111111", "code", "worker", "box", "expired"]


@pytest.mark.parametrize(
    ("words", "sent", "verb"),
    [
        ([], {"scope": "submit", "ttl_s": 3600.0}, "login"),
        (
            ["--scope", "submit", "--queue", "a", "--queue", "b", "--bare", "--name", "ann", "--ttl", "10m"],
            {"scope": "submit", "queues": ["a", "b"], "bare": True, "name": "ann", "ttl_s": 600.0},
            "login",
        ),
        (["--priority-max", "90"], {"scope": "submit", "priority_max": 90, "ttl_s": 3600.0}, "login"),
        (["--scope", "worker"], {"scope": "worker", "ttl_s": 3600.0}, "join"),
    ],
)
def test_a_code_is_made_and_printed_with_the_command_that_asks_for_it(
    home: Path, grass: Grass, words: list[str], sent: dict[str, object], verb: str
) -> None:
    answer = {"code": "grass1.abc", "id": "0a1b2c3d", "expires": "2026-11-15T11:00:00Z"}
    with FakeDaemon(home, lambda request: document(answer)) as daemon:
        done = grass("token", "create", *words)
        assert grass("token", "create", "-q").stdout == "grass1.abc\n"
    assert done.stdout == "grass1.abc\n" and f"`grass {verb}`" in done.stderr
    asked = daemon.requests[0].document
    assert len(asked.pop("key")) == 32
    assert asked == sent


def test_a_token_is_revoked_by_its_id(home: Path, grass: Grass) -> None:
    with FakeDaemon(home, lambda request: document({"id": "0a1b2c3d", "name": "ann"})) as daemon:
        done = grass("token", "revoke", "0a1b2c3d")
    assert done.stdout == "token 0a1b2c3d (ann) is revoked\n"
    assert (daemon.requests[0].target, daemon.requests[0].document["id"]) == ("/v1/tokens/revoke", "0a1b2c3d")


@pytest.mark.parametrize(
    ("words", "answer", "said"),
    [
        ([], {"held": 1}, "1 job is held; `grass show token:0a1b2c3d` lists them, and `grass release` lets them go on"),
        ([], {"held": 0, "running": 1200}, "1,200 jobs are running still; `grass kill token:0a1b2c3d` ends all jobs"),
        (["--kill"], {"killed": 2, "running": 1}, "2 jobs are asked to end"),
    ],
)
def test_the_end_of_a_token_says_what_becomes_of_its_jobs(
    home: Path, grass: Grass, words: list[str], answer: dict[str, object], said: str
) -> None:
    with FakeDaemon(home, lambda request: document({"id": "0a1b2c3d", "name": "ann", **answer})) as daemon:
        done = grass("token", "revoke", "0a1b2c3d", *words)
    assert said in done.stderr
    assert daemon.requests[0].document.get("kill", False) is bool(words)


@pytest.mark.parametrize(
    "words",
    [
        ["token", "revoke"],
        ["token", "create", "--kill"],
        ["token", "create", "--scope", "read", "--priority-max", "3"],
        ["token", "create", "x"],
        ["token", "destroy"],
        ["token", "create", "--scope", "god"],
        ["token", "create", "--scope", "read", "--bare"],
        ["token", "create", "--ttl", "soon"],
        ["audit", "--last", "0"],
        ["drain"],
        ["remove"],
        ["store"],
        ["store", "copy", "sqlite:a"],
        ["store", "move", "sqlite:a", "sqlite:b"],
        ["store", "copy", "sqlite:a", "sqlite:./a"],
        ["store", "copy", "memory", "sqlite:./a"],
        ["store", "copy", "oracle:a", "sqlite:./a"],
    ],
)
def test_a_mistake_is_one_line_and_exit_2(words: list[str], home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), err.startswith("grass: ")) == ("", 1, True)


ENTRY = {"at": 1.0, "who": "token 0a1b2c3d", "name": "ann", "peer": "10.0.0.1", "method": "POST",
         "path": "/v1/enqueue", "about": "", "result": "200"}  # fmt: skip


@pytest.mark.parametrize("at", [1763200000.5, "2026-11-15T10:00:00Z"])
def test_the_audit_is_shown(home: Path, grass: Grass, at: object) -> None:
    answer = {"entries": [{**ENTRY, "at": at}]}
    with FakeDaemon(home, lambda request: document(answer)) as daemon:
        done = grass("audit", "--last", "5")
    assert (done.returncode, done.stderr) == (0, "")
    assert daemon.requests[0].target == "/v1/audit?last=5"
    assert "token 0a1b2c3d" in done.stdout and "POST /v1/enqueue" in done.stdout


def test_doctor_names_the_brokers_and_refuses_a_readable_file(home: Path, grass: Grass) -> None:
    let_in(home, b"x" * 32, Address("my.server.com"), login=TOKEN, worker="w.s")
    checks = json.loads(grass("doctor", "--json").stdout)["checks"]
    kept = [check["found"] for check in checks if check["check"] == "broker"]
    assert (
        len(kept) == 1
        and kept[0].startswith("my.server.com:7500: this machine has tokens as ")
        and "box (worker)" in kept[0]
    )
    assert "none runs, so this machine gets no jobs from its broker" in [check["found"] for check in checks]
    (home / broker_file.FILE_NAME).chmod(0o644)
    done = grass("doctor", "--json")
    failed = [check["check"] for check in json.loads(done.stdout)["checks"] if check["status"] == "fail"]
    assert (done.returncode, "brokers" in failed) == (1, True)


@pytest.mark.parametrize(
    "odd",
    [
        {"token": "0a1b\r\nHost: x"}, {"name": "\xe4nn"}, {"name": 7}, {"scope": ""}, {"store_id": "../../elsewhere"},
        {"store_id": "/tmp"}, {"store_id": None},
    ],
)  # fmt: skip
def test_a_broker_with_odd_words_does_not_get_them_into_the_file(
    home: Path, certificate: Certificate, capfd: pytest.CaptureFixture[str], grass: Grass, odd: dict[str, object]
) -> None:
    given = {"token": "0a1b2c3d", "scope": "worker", "name": "box", "store_id": STORE_ID, "queues": None}
    with FakeBroker(certificate, lambda request: document(given | odd)) as broker:
        done = grass("join", code_for(certificate, broker.address))
    assert done.returncode == 4
    assert "cannot be read" in done.stderr
    assert broker_file.load(str(home)).entries == []
