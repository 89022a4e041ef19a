"""brokers.json: whose tokens are where, and who can read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.fake import document
from tests.cli.fake_broker import STORE_ID, TOKEN, Certificate, FakeBroker, closed_port, let_in

from grassq import home as homes
from grassq.core.syntax.addresses import ADDRESSES_MAX, Address
from grassq.errors import Refused, Unreachable
from grassq.net import broker as remote_broker
from grassq.net import broker_file
from grassq.pins import Shown

HERE = Address("my.server.com")
SHOWN = Shown(b"a certificate")
PRINT = SHOWN.certificate


def path_of(home: Path) -> Path:
    return home / broker_file.FILE_NAME


def test_what_was_written_is_read_again(home: Path) -> None:
    let_in(home, PRINT, HERE, Address("::1", 7501), worker="w.s")
    [entry] = broker_file.load(str(home)).entries
    assert entry.addresses == [HERE, Address("::1", 7501)]
    assert (entry.fingerprint, entry.store_id) == (PRINT, STORE_ID)
    assert entry.login is not None and (entry.login.token, entry.login.name, entry.login.scope) == (
        TOKEN,
        "ann",
        "submit",
    )
    assert entry.worker is not None and (entry.worker.token, entry.worker.name) == ("w.s", "box")


def test_the_file_is_as_documented(home: Path) -> None:
    let_in(home, PRINT, HERE)
    assert json.loads(path_of(home).read_bytes()) == {
        "v": 1,
        "brokers": [
            {
                "addresses": ["my.server.com:7500"],
                "fingerprint": PRINT.hex(),
                "store_id": STORE_ID,
                "login": {"token": TOKEN, "name": "ann", "scope": "submit"},
                "worker": None,
            }
        ],
    }


def test_it_is_for_its_owner_alone_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        let_in(home, PRINT, HERE)
    finally:
        os.umask(before)
    assert path_of(home).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601, 0o644])
def test_a_file_others_can_open_is_refused_as_ssh_does(home: Path, mode: int) -> None:
    let_in(home, PRINT, HERE)
    path_of(home).chmod(mode)
    with pytest.raises(Refused, match=r"other users may open it \(mode 0[0-7]{3}\); `chmod 600 "):
        broker_file.load(str(home))
    done = calls.grass(home, "show", "--broker", str(HERE))
    assert (done.returncode, "chmod 600" in done.stderr) == (5, True)


def test_a_file_of_another_user_is_refused(home: Path) -> None:
    let_in(home, PRINT, HERE)
    os.chown(path_of(home), 12345, -1)
    with pytest.raises(Refused, match="belongs to uid 12345"):
        broker_file.load(str(home))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"{}", b'{"v": 2, "brokers": []}', b'{"v": 1, "brokers": 5}', b"\xff",
        b'{"v": 1, "brokers": [{}]}', b"[" * 100_000, b" " * (broker_file.FILE_MAX + 1),
        json.dumps({"v": 1, "brokers": [{"addresses": ["a b"], "fingerprint": "00", "store_id": ""}]}).encode(),
        json.dumps({"v": 1, "brokers": [{"addresses": ["a"], "fingerprint": "xx", "store_id": ""}]}).encode(),
        json.dumps({"v": 1, "brokers": [{"addresses": ["a"], "fingerprint": "00", "store_id": "",
                                         "login": {"token": "a\r\nX: y", "name": "n", "scope": "read"}}]}).encode(),
    ],
)  # fmt: skip
def test_a_damaged_file_is_a_sentence(home: Path, content: bytes) -> None:
    path_of(home).write_bytes(content)
    path_of(home).chmod(0o600)
    with pytest.raises(Refused, match="is damaged; move it away"):
        broker_file.load(str(home))


def test_a_pipe_in_its_place_does_not_hang(home: Path) -> None:
    os.mkfifo(path_of(home), 0o600)
    with pytest.raises(Refused, match="is not a file"):
        broker_file.load(str(home))


def test_a_change_that_fails_leaves_the_file_as_it_was(home: Path) -> None:
    let_in(home, PRINT, HERE)
    before = path_of(home).read_bytes()
    with pytest.raises(ZeroDivisionError), broker_file.changing(str(home)) as book:
        book.entries.clear()
        raise ZeroDivisionError
    assert path_of(home).read_bytes() == before
    assert [each.name for each in home.iterdir() if each.name.endswith(".new")] == []


def test_two_writers_lose_nothing(home: Path) -> None:
    program = (
        "import sys; from grassq.net import broker_file; from grassq.core.syntax.addresses import Address\n"
        "for n in range(20):\n"
        "    with broker_file.changing(sys.argv[1]) as book:\n"
        "        book.entries.append(broker_file.KnownBroker([Address(sys.argv[2], n + 1)], b'x', 's'))\n"
    )
    argv = [sys.executable, "-c", program, str(home)]
    writers = [subprocess.Popen([*argv, name], env=calls.environment(home)) for name in ("one", "two")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    found = {entry.addresses[0] for entry in broker_file.load(str(home)).entries}
    assert found == {Address(name, number) for name in ("one", "two") for number in range(1, 21)}


def test_a_writer_that_holds_the_lock_for_ever_is_a_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_file, "LOCK_TIMEOUT_S", 0.05)
    with (
        broker_file.changing(str(home)),
        pytest.raises(Refused, match="another command has been writing"),
        broker_file.changing(str(home)),
    ):
        pass


def test_more_brokers_than_anybody_has_are_refused(home: Path) -> None:
    with pytest.raises(Refused, match="256 brokers"), broker_file.changing(str(home)) as book:
        book.entries += [broker_file.KnownBroker([HERE], b"x", "s")] * (broker_file.BROKERS_MAX + 1)
    assert not path_of(home).exists()


def test_aliases_are_bounded_and_the_newest_stay(home: Path) -> None:
    let_in(home, PRINT, HERE)
    for port in range(1, ADDRESSES_MAX + 2):
        broker_file.remember(str(home), SHOWN, Address("a", port))
    [entry] = broker_file.load(str(home)).entries
    assert entry.addresses == [Address("a", port) for port in range(2, ADDRESSES_MAX + 2)]


def test_an_address_of_another_broker_is_not_taken_from_it(home: Path) -> None:
    let_in(home, PRINT, HERE)
    other = Shown(b"another")
    let_in(home, other.certificate, Address("other"))
    broker_file.remember(str(home), other, HERE)
    assert [entry.addresses for entry in broker_file.load(str(home)).entries] == [[HERE], [Address("other")]]


def test_a_home_that_cannot_be_written_can_still_be_used(home: Path, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    with FakeBroker(certificate, lambda request: document({"jobs": []})) as broker:
        let_in(home, certificate.fingerprint, broker.address)
        (home / broker_file.LOCK_NAME).unlink()
        (home / broker_file.LOCK_NAME).mkdir()  # in the way of every writer, root's too
        alias = Address("localhost", broker.port)
        assert remote_broker.credential(str(home), [alias], "login").token == TOKEN


def test_credentials_of_a_listed_address_need_no_network(home: Path) -> None:
    gone = closed_port()
    let_in(home, PRINT, gone, HERE, worker="w.s")
    mine = remote_broker.credential(str(home), [HERE], "worker")
    assert (mine.token, mine.name, mine.store_id, mine.fingerprint) == ("w.s", "box", STORE_ID, PRINT)
    assert mine.addresses == [HERE, gone]
    assert remote_broker.credential(str(home), [gone], "login").token == TOKEN


def test_credentials_at_a_new_address_are_found_by_its_certificate(home: Path, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    with FakeBroker(certificate, lambda request: None) as broker:
        let_in(home, certificate.fingerprint, HERE, worker="w.s")
        found = remote_broker.credential(str(home), [broker.address], "worker")
        assert (found.token, found.addresses) == ("w.s", [broker.address, HERE])
        assert broker.heard == b""
    # From now on it is listed, so that it need not be up.
    assert remote_broker.credential(str(home), [broker.address], "worker").token == "w.s"
    # A worker whose broker is away waits for it: it has joined no other, and the certificate will tell.
    away = closed_port()
    assert remote_broker.credential(str(home), [away], "worker").addresses[0] == away
    with pytest.raises(Unreachable):
        remote_broker.credential(str(home), [closed_port()], "login")


def test_a_machine_that_has_not_joined_is_told_how(home: Path) -> None:
    let_in(home, PRINT, HERE)
    with pytest.raises(Refused, match=r"has not joined my\.server\.com:7500: .*`grass join`"):
        remote_broker.credential(str(home), [HERE], "worker")
    assert remote_broker.joined(str(home)) == []


def test_what_use_wrote_is_what_commands_read(home: Path) -> None:
    assert homes.broker(str(home)) is None
    broker_file.choose(str(home), "a:1,b:2")
    assert homes.broker(str(home)) == "a:1,b:2"
    broker_file.choose(str(home), None)
    broker_file.choose(str(home), None)
    assert homes.broker(str(home)) is None


def test_commands_on_a_machine_that_is_only_a_worker_go_to_its_broker(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / homes.JOINED_NAME).write_text("a:1,b:2\n")
    assert homes.broker(str(home)) == homes.broker(str(home), "local") == "a:1,b:2"
    assert homes.broker(str(home), "c:3") == "c:3"
    broker_file.choose(str(home), "d:4")
    assert (homes.broker(str(home)), homes.broker_named_by(str(home))) == ("d:4", "`grass use`")
    broker_file.choose(str(home), None)
    assert homes.broker_named_by(str(home)) == "this machine is a worker of it"
    monkeypatch.setenv("GRASS_BROKER", "e:5")
    assert (homes.broker(str(home)), homes.broker_named_by(str(home))) == ("e:5", "GRASS_BROKER")


def test_a_choice_that_cannot_be_read_is_not_taken_for_none(home: Path) -> None:
    (home / homes.BROKER_NAME).symlink_to(homes.BROKER_NAME)
    with pytest.raises(Refused, match="cannot read"):
        homes.broker(str(home))
