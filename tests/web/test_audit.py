"""The audit: complete, bounded, and without a secret in it."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.web.broker_fixture import WAIT_S, BrokerFixture, digest_of, key, new_secret, play
from tests.web.test_redeem_codes import exchange_of, made, redeem

from grassq.core.syntax import join_codes
from grassq.web.access import auth
from grassq.web.access.audit import FILE_NAME, OLD_NAME, Audit, AuditEntry


def fill(audit: Audit, count: int, sync: bool = False) -> None:
    for number in range(count):
        audit.write(entry(at=float(number)), sync=sync)


def entry(**more: Any) -> AuditEntry:
    values: dict[str, Any] = {"at": 0.0, "who": "token 1a2b3c4d", "name": "ann", "peer": "10.0.0.1:9", "method": "POST"}
    return AuditEntry(**(values | {"path": "/v1/enqueue", "result": "200"} | more))


def test_entries_are_kept_over_a_restart_for_the_owner_alone(tmp_path: Path) -> None:
    fill(Audit(str(tmp_path)), 3)
    audit = Audit(str(tmp_path))
    fill(audit, 2, sync=True)
    assert [each.at for each in audit.read(10)] == [0, 1, 2, 0, 1]
    assert [each.at for each in audit.read(3)] == [2, 0, 1]
    assert audit.read(0) == []
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_file_of_an_earlier_release_is_still_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(
        '{"n":1,"at":7.0,"who":"uid 0","name":"you","peer":"local","method":"POST","path":"/v1/tokens/create",'
        f'"result":"200","prev":"{"0" * 64}","hash":"{"f" * 64}"}}\n'
    )
    audit = Audit(str(tmp_path))
    fill(audit, 1)
    assert [each.at for each in audit.read(10)] == [7, 0]


def test_a_full_audit_goes_on_in_a_new_file_and_keeps_one_old_file(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path), bytes_max=2000)
    fill(audit, 100)
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == [FILE_NAME, OLD_NAME] and all(file.stat().st_size <= 2000 for file in tmp_path.iterdir())
    numbers = [each.at for each in audit.read(100)]
    assert numbers == list(range(100))[-len(numbers) :] and len(numbers) > 10


def test_a_line_that_was_cut_short_spoils_no_other_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit(str(tmp_path))
    fill(audit, 1)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    fill(audit, 1)
    monkeypatch.setattr(os, "write", real)
    fill(audit, 2)
    assert [each.at for each in audit.read(9)] == [0, 0, 1]


def test_words_from_outside_cannot_break_out_of_a_line(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path))
    audit.write(entry(name="\u202e\n\x1b]0;", path='/v1/"\\\n{}' + "\ud800" + "x" * 10_000))
    assert len((tmp_path / FILE_NAME).read_bytes()) < 1000
    assert len(audit.read(2)) == 1 and audit.read(1)[0].name.isascii()


async def told(fixture: BrokerFixture) -> list[tuple[str, str, str]]:
    """Who, what and the result of every line."""
    answer = await fixture.ask("GET", "/v1/audit?last=1000", local=True)
    return [(line["who"], line["path"], line["result"]) for line in answer.json["entries"]]


def test_every_change_is_told_with_who_and_how_it_ended() -> None:
    async def test(fixture: BrokerFixture) -> None:
        ann, eve = await fixture.token("submit", bare=True), await fixture.token("read")
        job = {"jobs": [{"command": ["true"], "hold": True}], "key": key()}
        assert (await fixture.ask("POST", "/v1/submit", job, ann)).status == 200
        assert (await fixture.ask("POST", "/v1/submit", job, eve)).status == 403
        assert (await fixture.ask("POST", "/v1/enqueue", {"words": ["-"], "key": key()}, ann)).status == 200
        assert (await fixture.ask("POST", "/v1/jobs/kill", {"selectors": ["9"], "key": key()}, ann)).status == 404
        assert (await fixture.ask("GET", "/v1/show", token=ann)).status == 200
        own = {
            "/v1/create-queue": {"words": ["q", "--cpu=1"]},
            "/v1/pause": {},
            "/v1/jobs/kill": {"selectors": ["1"]},
            "/v1/jobs/clean": {"selectors": ["nosuch"]},
        }
        for path, body in own.items():
            await fixture.ask("POST", path, {**body, "key": key()}, local=True)
        # The owner's own jobs are in the store, and there may be very many.
        assert (await fixture.ask("POST", "/v1/submit", {**job, "key": key()}, local=True)).status == 200
        whose = [f"token {token.partition('.')[0]}" for token in (ann, eve)]
        lines = await told(fixture)
        assert lines[0] == (whose[0], "/v1/submit", "200")
        assert lines[1] == (whose[1], "/v1/submit", "403")
        assert lines[2][:2] == (whose[0], "/v1/enqueue") and lines[2][2].startswith("200 exit ")
        assert lines[3] == (whose[0], "/v1/jobs/kill", "404")
        assert [(who.split()[0], path) for who, path, _ in lines[4:]] == [("uid", path) for path in own]
        assert [result for *_, result in lines[4:]] == ["200", "200", "200", "404"]

    play(test)


def test_codes_and_tokens_are_told_on_every_socket() -> None:
    async def test(fixture: BrokerFixture) -> None:
        code = await made(fixture)
        given = (await redeem(fixture, code)).json["token"]
        await fixture.ask("POST", "/v1/tokens/revoke", {"id": given, "key": key()}, local=True)
        answer = await fixture.ask("GET", "/v1/audit", local=True)
        lines = answer.json["entries"]
        assert [line["path"] for line in lines] == ["/v1/tokens/create", "/v1/redeem", "/v1/tokens/revoke"]
        assert lines[0]["who"].startswith("uid ") and lines[0]["peer"] == "local" and code.id in lines[0]["about"]
        assert lines[1]["who"] == f"token {given}" and lines[1]["peer"].startswith("127.0.0.1:")
        assert given in lines[2]["about"]

    play(test)


def test_a_worker_that_comes_and_is_cut_is_told() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("worker", name="box")
        id_ = token.partition(".")[0]
        shown = {"Authorization": f"Bearer {token}", "Host": "grass"}
        async with aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{fixture.port}/v1/worker"
            async with session.ws_connect(url, ssl=fixture.client_context(), headers=shown):
                await fixture.linked.wait()
                await fixture.ask("POST", "/v1/tokens/revoke", {"id": id_, "key": key()}, local=True)
                await fixture.unlinked.wait()
        async with asyncio.timeout(WAIT_S):
            while len(lines := await told(fixture)) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        mine = [line for line in lines if line[0] == f"token {id_}"]
        assert mine == [(f"token {id_}", "/v1/worker", "connects"), (f"token {id_}", "/v1/worker", "cut")]

    play(test)


def test_a_stranger_cannot_fill_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "FAILURES_PER_MINUTE", 3)

    async def test(fixture: BrokerFixture) -> None:
        for _ in range(20):
            assert (await fixture.ask("POST", "/v1/redeem", {"code": "x"})).status == 400
            assert (await fixture.ask("POST", "/v1/submit", {})).status == 401
        # A minute may have begun meanwhile.
        assert 3 <= len(await told(fixture)) <= 6

    play(test)


def test_a_secret_is_in_no_file_no_log_and_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def test(fixture: BrokerFixture) -> None:
        code, secret = await made(fixture, "admin"), new_secret()
        assert (await redeem(fixture, code, secret=secret)).status == 200
        listed = (await fixture.ask("GET", "/v1/tokens", local=True)).json["tokens"]
        token = next(each["id"] for each in listed if not each["is_code"]) + "." + secret
        bodies = []
        for method, path in (("GET", "/v1/tokens"), ("GET", "/v1/audit"), ("GET", "/v1/info"), ("GET", "/v1/show")):
            bodies.append((await fixture.ask(method, path, token=token)).body)
        for path, body in (("/v1/pause", {"key": secret}), ("/v1/redeem", exchange_of(code) | {"digest": secret})):
            bodies.append((await fixture.ask("POST", path, body, token)).body)
        bodies.append((await fixture.ask("GET", "/v1/nosuch", token=token)).body)
        bodies.append((await fixture.ask("GET", "/v1/show", token=token + "x")).body)
        files = [file.read_bytes() for file in fixture.home.iterdir() if file.is_file() and file.name != "tls.pem"]
        store = await fixture.engine.read(lambda batch: repr(batch.store.tokens()))
        everything = b"\n".join([*bodies, *files, store.encode(), caplog.text.encode()])
        for hidden in (secret, code.secret, digest_of(secret).hex(), join_codes.encode(code)):
            assert hidden.encode() not in everything

    caplog.set_level("DEBUG")
    play(test)


def test_an_audit_that_could_not_open_its_next_file_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit(str(tmp_path), bytes_max=2000)
    real = os.open

    def no_descriptor(*args: Any, **more: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", no_descriptor)
    fill(audit, 20)
    monkeypatch.setattr(os, "open", real)
    fill(audit, 2)
    assert (tmp_path / FILE_NAME).exists() and len(audit.read(100)) > 2
