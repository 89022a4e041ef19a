"""The audit: complete, chained, bounded, and without a secret in it."""

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
from grassq.web.access.audit import FILE_NAME, OLD_NAME, Audit


def fill(audit: Audit, count: int, sync: bool = False) -> None:
    for number in range(count):
        audit.write(float(number), "token 1a2b3c4d", "ann", "10.0.0.1:9", "POST", "/v1/enqueue", "200", sync=sync)


def test_a_whole_audit_is_whole_also_after_a_restart(tmp_path: Path) -> None:
    fill(Audit(str(tmp_path)), 3)
    audit = Audit(str(tmp_path))
    fill(audit, 2, sync=True)
    verdict = audit.read(10)
    assert verdict.whole and verdict.broken_at is None
    assert [entry.n for entry in verdict.entries] == [1, 2, 3, 4, 5]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert [entry.n for entry in audit.read(2).entries] == [4, 5]


def test_a_change_of_any_one_byte_is_found(tmp_path: Path) -> None:
    fill(Audit(str(tmp_path)), 3)
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert not reading(tmp_path), f"byte {at} {whole[at : at + 1]!r}"
    path.write_bytes(whole)
    assert reading(tmp_path)


def reading(home: Path) -> bool:
    """Whether an audit is whole, without writing to it first."""
    before = (home / FILE_NAME).read_bytes()
    audit = Audit(str(home))
    # Opening takes a cut line away; what is judged is what was there.
    (home / FILE_NAME).write_bytes(before)
    try:
        return audit.read(0).whole
    finally:
        audit.close()


@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_line_taken_out_or_moved_is_found(tmp_path: Path, line: int) -> None:
    fill(Audit(str(tmp_path)), 4)
    path = tmp_path / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    audit = Audit(str(tmp_path))
    assert audit.read(10).broken_at == line + 2
    path.write_bytes(b"".join([*lines[:line], lines[line + 1], lines[line], *lines[line + 2 :]]))
    assert not audit.read(10).whole
    audit.close()


def test_a_full_audit_goes_on_in_a_new_file_and_the_chain_with_it(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path), bytes_max=2000)
    fill(audit, 40)
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == [FILE_NAME, OLD_NAME] and all(file.stat().st_size <= 2000 for file in tmp_path.iterdir())
    verdict = audit.read(100)
    assert verdict.whole and verdict.entries[-1].n == 40 and verdict.entries[0].n > 1
    audit.close()
    again = Audit(str(tmp_path), bytes_max=2000)
    fill(again, 40)
    assert again.read(1).whole
    (tmp_path / OLD_NAME).unlink()
    assert not again.read(1).whole
    again.close()


def test_a_crash_between_two_files_or_inside_a_line_breaks_no_chain(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path))
    fill(audit, 3)
    audit.close()
    (tmp_path / FILE_NAME).rename(tmp_path / OLD_NAME)
    audit = Audit(str(tmp_path))
    fill(audit, 1)
    audit.close()
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"n":5,"at":')
    audit = Audit(str(tmp_path))
    fill(audit, 1)
    assert audit.read(1).whole and audit.read(1).entries[0].n == 5
    audit.close()


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit(str(tmp_path))
    fill(audit, 1)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    fill(audit, 1)
    monkeypatch.setattr(os, "write", real)
    fill(audit, 1)
    assert audit.read(9).whole and len(audit.read(9).entries) == 2
    audit.close()


def test_words_from_outside_cannot_break_out_of_a_line(tmp_path: Path) -> None:
    audit = Audit(str(tmp_path))
    audit.write(0.0, "nobody", "\u202e\n\x1b]0;", "p", "POST", '/v1/"\\\n{}' + "\ud800" + "x" * 10_000, "401")
    verdict = audit.read(1)
    assert verdict.whole and len((tmp_path / FILE_NAME).read_bytes()) < 1000
    assert verdict.entries[0].name.isascii()
    audit.close()


async def told(fixture: BrokerFixture) -> list[tuple[str, str, str]]:
    """Who, what and the result of every line."""
    answer = await fixture.ask("GET", "/v1/audit?last=1000", local=True)
    assert answer.json["whole"] is True and answer.json["broken_at"] is None
    return [(line["who"], line["path"], line["result"]) for line in answer.json["entries"]]


def test_every_change_over_tcp_is_told_with_who_and_how_it_ended() -> None:
    async def test(fixture: BrokerFixture) -> None:
        ann, eve = await fixture.token("submit", bare=True), await fixture.token("read")
        job = {"jobs": [{"command": ["true"], "hold": True}], "key": key()}
        assert (await fixture.ask("POST", "/v1/submit", job, ann)).status == 200
        assert (await fixture.ask("POST", "/v1/submit", job, eve)).status == 403
        assert (await fixture.ask("POST", "/v1/enqueue", {"words": ["-"], "key": key()}, ann)).status == 200
        assert (await fixture.ask("POST", "/v1/jobs/kill", {"selectors": ["9"], "key": key()}, ann)).status == 404
        assert (await fixture.ask("GET", "/v1/show", token=ann)).status == 200
        assert (await fixture.ask("POST", "/v1/pause", {"key": key()}, local=True)).status == 200
        whose = [f"token {token.partition('.')[0]}" for token in (ann, eve)]
        lines = await told(fixture)
        assert lines[0] == (whose[0], "/v1/submit", "200")
        assert lines[1] == (whose[1], "/v1/submit", "403")
        assert lines[2][:2] == (whose[0], "/v1/enqueue") and lines[2][2].startswith("200 exit ")
        assert lines[3:] == [(whose[0], "/v1/jobs/kill", "404")]

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
    verdict = audit.read(100)
    assert verdict.whole and (tmp_path / FILE_NAME).exists()
    assert len(verdict.entries) > 2
    audit.close()
