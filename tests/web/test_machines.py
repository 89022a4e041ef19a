"""The routes of the machines over ssh: the owner's alone, checked before anything is asked, and printable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from msgspec import Struct
from tests.web.broker_fixture import BrokerFixture, key, play
from tests.web.browser import a_page

from grassq.errors import NotFound, Refused
from grassq.machines.book import AddedMachine, MachineEntry, MachineRow
from grassq.machines.ssh.target import SshTarget
from grassq.web.responses import BLANK_S
from grassq.web.routes.machines import STEPS_MAX

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202e line\nline"


class Step(Struct):
    """A step as the check-up makes them."""

    name: str
    ok: bool | None
    words: str


class Machines:
    """A keeper without ssh: it notes what it is asked, and answers what the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.steps: list[Step] = [Step("login", True, "as ann"), Step("clock", None, "2 s behind")]
        self.gate: asyncio.Event | None = None
        self.error: Refused | None = None
        self.added = AddedMachine("added", ("16 cpu",))
        self.row = MachineRow(
            "a", "ann@host", "connected", boot="b00t", runs="/usr/bin/python3", jobs=2, labels=("gpu",)
        )

    async def add(self, entry: MachineEntry, *, new_key: bool) -> AddedMachine:
        self.asked.append(("add", entry, new_key))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return self.added

    async def remove(self, name: str, *, force: bool) -> Sequence[str]:
        self.asked.append(("remove", name, force))
        return [f"a folder {HOSTILE}"]

    def list(self) -> Sequence[MachineRow]:
        return [self.row]

    async def test(self, name: str, agent: str | None) -> AsyncIterator[Step]:
        self.asked.append(("test", name, agent))
        for step in self.steps:
            yield step
        if self.error is not None:
            raise self.error

    async def free(self, name: str) -> dict[str, object]:
        self.asked.append(("free", name))
        if self.error is not None:
            raise self.error
        return {"cpus": 16, "gpus": []}

    async def retry(self, name: str, agent: str | None) -> None:
        self.asked.append(("retry", name, agent))

    def login(self, name: str) -> Sequence[str]:
        return ["ssh", "-o", "BatchMode=no", "--", name]

    def entry(self, name: str) -> MachineEntry:
        if name != "a":
            raise NotFound(f"there is no machine {name!r}")
        return ENTRY


ENTRY = MachineEntry(
    "a", SshTarget("::1", "ann", 2222, "/keys/id"), ("gpu",), "{gpu: 1}", "/scratch/g", "/agent", False
)
ROUTES = [
    ("GET", "/v1/machines", None),
    ("GET", "/v1/machines/a/about", None),
    ("GET", "/v1/machines/a/test", None),
    ("GET", "/v1/machines/a/free", None),
    ("POST", "/v1/machines/add", {"name": "a", "target": "host"}),
    ("POST", "/v1/machines/remove", {"name": "a"}),
    ("POST", "/v1/machines/retry", {"name": "a"}),
]


async def steps_told(broker: BrokerFixture, name: str = "a") -> list[dict[str, Any]]:
    """The lines of a test."""
    reader, writer = await asyncio.open_unix_connection(str(broker.home / "grass.sock"))
    writer.write(f"GET /v1/machines/{name}/test?agent=%2Frun%2Fagent HTTP/1.1\r\nHost: grass\r\n\r\n".encode())
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 200")
    return [json.loads(line) for line in body.splitlines() if line.startswith(b"{")]


@pytest.mark.parametrize("scope", ["admin", "submit", "read", "worker"])
def test_no_token_may_use_the_owners_keys(scope: Any) -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        token = await broker.token(scope)
        for method, path, body in ROUTES:
            answer = await broker.ask(method, path, None if body is None else {**body, "key": key()}, token)
            assert (answer.status, answer.words) == (403, "this can be done on the broker's own machine only"), path
        assert machines.asked == []

    play(run, machines)


def test_the_owners_own_page_lists_the_machines_and_does_nothing_else() -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        own = await a_page(broker)
        assert [each["name"] for each in (await own.ask("GET", "/v1/machines")).json["machines"]] == ["a"]
        for method, path, body in [each for each in ROUTES if each[1] != "/v1/machines"]:
            assert (await own.ask(method, path, None if body is None else {**body, "key": key()})).status == 403
        for other in (await a_page(broker, "submit"), await a_page(broker, "read"), await a_page(broker, tls=True)):
            assert (await other.ask("GET", "/v1/machines")).status == 403
        assert machines.asked == []

    play(run, machines)


def test_without_a_token_nothing_of_the_machines_is_told() -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        for method, path, body in ROUTES:
            assert (await broker.ask(method, path, body)).status == 401
        assert machines.asked == []

    play(run, machines)


def test_an_added_machine_is_what_was_typed() -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        body = {
            "name": "a",
            "target": "ann@host",
            "port": 2222,
            "identity": "/keys/id",
            "labels": ["gpu"],
            "capacity": "{gpu: 1}",
            "dir": "/scratch/g",
            "agent": "/run/agent",
            "no_python": True,
            "accept_key": True,
            "key": key(),
        }
        answer = await broker.ask("POST", "/v1/machines/add", body, local=True)
        assert answer.json == {"name": "a", "status": "added", "found": ["16 cpu"], "ask": []}
        target = SshTarget("host", "ann", 2222, "/keys/id")
        entry = MachineEntry("a", target, ("gpu",), "{gpu: 1}", "/scratch/g", "/run/agent", python=False)
        assert machines.asked == [("add", entry, True)]

    play(run, machines)


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": "-oProxyCommand=touch owned"},
        {"target": "ann@-oProxyCommand=x"},
        {"target": "host; rm -rf ~"},
        {"target": "host\nother"},
        {"target": ""},
        {"target": 7},
        {"target": "host", "port": 0},
        {"target": "host", "port": 65536},
        {"target": "host", "port": "22"},
        {"target": "ssh://host:22", "port": 23},
        {"target": "host", "labels": "gpu"},
        {"target": "host", "surprise": 1},
        {"target": "host", "name": None},
        {"target": "host", "key": "short"},
        {},
    ],
)
def test_a_bad_body_is_one_line_and_the_keeper_is_not_asked(wrong: dict[str, object]) -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        answer = await broker.ask("POST", "/v1/machines/add", {"name": "a", "key": key(), **wrong}, local=True)
        assert answer.status == 400
        assert answer.json["error"]["exit"] == 2
        assert "\n" not in answer.words
        assert machines.asked == []

    play(run, machines)


def test_a_key_that_nobody_knows_comes_back_with_the_command_that_asks() -> None:
    machines = Machines()
    machines.added = AddedMachine("unknown_key", (f"ED25519 {HOSTILE}",), ("ssh", "host"))

    async def run(broker: BrokerFixture) -> None:
        body = {"name": "a", "target": "host", "key": key()}
        answer = (await broker.ask("POST", "/v1/machines/add", body, local=True)).json
        assert (answer["status"], answer["ask"]) == ("unknown_key", ["ssh", "host"])
        assert answer["found"][0].isprintable()

    play(run, machines)


def test_a_login_that_fails_is_told_with_its_words() -> None:
    machines = Machines()
    machines.error = Refused("no key of yours is accepted")

    async def run(broker: BrokerFixture) -> None:
        body = {"name": "a", "target": "host", "key": key()}
        answer = await broker.ask("POST", "/v1/machines/add", body, local=True)
        assert (answer.status, answer.words) == (409, "no key of yours is accepted")

    play(run, machines)


def test_a_login_that_takes_long_keeps_its_client_waiting_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grassq.web.responses.BLANK_S", 0.0)
    monkeypatch.setattr("grassq.web.routes.machines.BLANK_S", BLANK_S / 100)
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        machines.gate = asyncio.Event()
        reader, writer = await asyncio.open_unix_connection(str(broker.home / "grass.sock"))
        body = json.dumps({"name": "a", "target": "host", "key": key()})
        head = f"POST /v1/machines/add HTTP/1.1\r\nHost: grass\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readline() == b"1\r\n"  # a chunk of one blank
        assert (await broker.ask("GET", "/v1/machines", local=True)).status == 200
        machines.gate.set()
        while not (line := await reader.readline()).startswith(b"{"):
            pass
        assert json.loads(line)["status"] == "added"
        writer.close()

    play(run, machines)


def test_a_list_shows_words_of_a_machine_in_the_wrong_hands_on_one_line() -> None:
    machines = Machines()
    machines.row = MachineRow("a", "host", "needs you", HOSTILE * 100, boot=HOSTILE, runs=HOSTILE, offers=HOSTILE)

    async def run(broker: BrokerFixture) -> None:
        (row,) = (await broker.ask("GET", "/v1/machines", local=True)).json["machines"]
        assert all(row[name].isprintable() for name in ("why", "boot", "runs", "offers"))
        assert len(row["why"]) <= 500

    play(run, machines)


def test_a_test_streams_its_steps_and_ends() -> None:
    machines = Machines()
    machines.steps.append(Step(HOSTILE, False, HOSTILE))

    async def run(broker: BrokerFixture) -> None:
        lines = await steps_told(broker)
        assert lines[0] == {"step": "login", "ok": True, "words": "as ann"}
        assert lines[2]["step"].isprintable() and lines[2]["words"].isprintable()
        assert lines[-1] == {"ended": True, "failed": 1}
        assert machines.asked == [("test", "a", "/run/agent")]

    play(run, machines)


def test_a_test_that_breaks_off_says_why() -> None:
    machines = Machines()
    machines.error = Refused("the connection ended")

    async def run(broker: BrokerFixture) -> None:
        lines = await steps_told(broker)
        assert lines[-1] == {"error": {"exit": 5, "message": "the connection ended"}}

    play(run, machines)


def test_a_test_without_end_is_ended() -> None:
    machines = Machines()
    machines.steps = [Step("login", True, "")] * (STEPS_MAX + 10)

    async def run(broker: BrokerFixture) -> None:
        assert len(await steps_told(broker)) == STEPS_MAX + 1

    play(run, machines)


def test_a_machine_that_is_not_there_cannot_be_tested() -> None:
    async def run(broker: BrokerFixture) -> None:
        answer = await broker.ask("GET", "/v1/machines/nope/test", local=True)
        assert (answer.status, answer.json["error"]["exit"]) == (404, 3)

    play(run, Machines())


def test_remove_and_retry_reach_the_keeper() -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        removed = await broker.ask(
            "POST", "/v1/machines/remove", {"name": "a", "force": True, "key": key()}, local=True
        )
        assert removed.json["name"] == "a"
        assert removed.json["left"][0].isprintable()
        await broker.ask("POST", "/v1/machines/retry", {"name": "a", "agent": "/run/x", "key": key()}, local=True)
        assert machines.asked == [("remove", "a", True), ("retry", "a", "/run/x")]

    play(run, machines)


def test_the_definition_of_a_machine_adds_the_same_machine_again() -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        about = (await broker.ask("GET", "/v1/machines/a/about", local=True)).json
        assert about["machine"]["state"] == "connected"
        assert about["argv"] == ["ssh", "-o", "BatchMode=no", "--", "a"]
        await broker.ask("POST", "/v1/machines/add", {**about["definition"], "key": key()}, local=True)
        assert machines.asked == [("add", ENTRY, False)]
        assert (await broker.ask("GET", "/v1/machines/nope/about", local=True)).status == 404

    play(run, machines)


def test_changes_of_machines_are_in_the_audit() -> None:
    async def run(broker: BrokerFixture) -> None:
        await broker.ask("POST", "/v1/machines/add", {"name": "a", "target": "host", "key": key()}, local=True)
        entries = (await broker.ask("GET", "/v1/audit?last=5", local=True)).json["entries"]
        assert [(each["path"], each["about"], each["result"]) for each in entries] == [
            ("/v1/machines/add", "a host", "200")
        ]

    play(run, Machines())


def test_a_daemon_without_a_keeper_says_so() -> None:
    async def run(broker: BrokerFixture) -> None:
        answer = await broker.ask("GET", "/v1/machines", local=True)
        assert (answer.status, answer.words) == (409, "this daemon keeps no machines")

    play(run)


def test_a_machine_is_asked_what_it_has_free() -> None:
    machines = Machines()

    async def run(broker: BrokerFixture) -> None:
        answer = await broker.ask("GET", "/v1/machines/a/free", local=True)
        assert (answer.status, answer.json["cpus"]) == (200, 16)
        machines.error = Refused("a is not connected: it is off")
        answer = await broker.ask("GET", "/v1/machines/a/free", local=True)
        assert answer.words == "a is not connected: it is off"

    play(run, machines)
