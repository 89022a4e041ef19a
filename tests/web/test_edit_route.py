"""Editing over the API: whose jobs, which values, and what two callers at once see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.web.broker_fixture import Answer, BrokerFixture, key, play
from tests.web.test_token_jobs import submit


async def edit(fixture: BrokerFixture, *selectors: str, token: str | None = None, **body: Any) -> Answer:
    given = {"selectors": list(selectors), "key": key(), **body}
    return await fixture.ask("POST", "/v1/jobs/edit", given, token=token, local=token is None)


async def editable(fixture: BrokerFixture, selector: str, token: str | None = None) -> Answer:
    return await fixture.ask("GET", f"/v1/jobs/editable?selector={selector}", token=token, local=token is None)


async def values(fixture: BrokerFixture, selector: str) -> Any:
    return (await editable(fixture, selector)).json["jobs"][0]["values"]


def test_the_owner_edits_everything_of_a_job_that_waits() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, None, 5)
        changed = {
            "command": ["true", {"b64": "//4="}], "cpu": 2, "priority": 40, "name": "n", "tries": "3", "grace": "1m",
            "env": {"A": "1"}, "split": True, "cwd": "tmp", "on_lost": "requeue",
        }  # fmt: skip
        answer = await edit(fixture, "5", set=changed)
        assert answer.status == 200 and answer.json["ids"] == [5], answer.body
        assert answer.json["jobs"][0]["cwd"] == "/tmp" and answer.json["jobs"][0]["name"] == "n"
        now = await values(fixture, "5")
        given = {"command": changed["command"], "require": {"cpu": 2}, "priority": 40, "name": "n", "tries": 3}
        given |= {"grace": 60, "env": ["A=1"], "split": True, "cwd": "/tmp", "on-lost": "requeue"}
        assert {name: now[name] for name in given} == given
        same = await edit(fixture, "5", set=changed)
        assert same.json["ids"] == [] and same.json["changed"] == {}, "nothing is changed a second time"

    play(test)


def test_a_version_stands_for_one_job_as_it_was() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, None, 6)
        version = (await editable(fixture, "5")).json["jobs"][0]["version"]
        assert (await edit(fixture, "5", set={"priority": 1}, version=version)).status == 200
        late = await edit(fixture, "5", set={"priority": 2}, version=version)
        assert (late.status, late.words) == (409, "job 5 was edited meanwhile; nothing was changed")
        assert (await edit(fixture, "5-6", set={"priority": 2}, version=version)).status == 400

    play(test)


def test_two_edits_at_once_both_count_where_they_differ_and_one_key_counts_once() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, None, 60)
        one = {"selectors": ["5-60"], "key": key(), "set": {"name": "same"}}
        asked = [edit(fixture, "5-60", set={each: 7}) for each in ("priority", "tries", "grace")]
        same = [fixture.ask("POST", "/v1/jobs/edit", one, local=True) for _ in range(2)]
        answers = await asyncio.gather(*asked, *same)
        assert {answer.status for answer in answers} <= {200, 409}
        assert all("at the same time" in answer.words for answer in answers if answer.status == 409)
        now = await values(fixture, "33")
        done = [answer for answer in answers if answer.status == 200]
        assert len(done) >= 3 and 7 in (now["priority"], now["tries"], now["grace"])

    play(test)


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"cpu": 99}, 409, "this can never run: 99 cpu asked"),
        ({"command": []}, 400, "the command is empty"),
        ({"command": ["true", "a\0b"]}, 400, "holds a NUL byte"),
        ({"command": [{"b64": "!"}]}, 400, "a word is a string or"),
        ({"command": ["true", "x" * 200_000]}, 400, "no program can be given one of more than"),
        ({"env": {"A": "a\0"}}, 400, "holds a NUL byte"),
        ({"priority": 99999999}, 400, "--priority needs a whole number"),
        ({"shell": True, "command": ["a", "b"]}, 400, "a shell job is one line"),
        ({"command": ["true", "{gpu}"], "env": {"X": "{cpu}"}, "require": {"mem": 1}}, 400, "is used but no"),
        ({"wrong": 1}, 400, "unknown option 'wrong'"),
    ],
)
def test_a_value_that_a_submission_refuses_is_refused_and_nothing_changes(given: Any, status: int, words: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, None, 6)
        answer = await edit(fixture, "5-6", set={"name": "n", **given})
        assert answer.status == status and words in answer.words, answer.body
        assert (await values(fixture, "5"))["name"] is None

    play(test)


def test_a_token_edits_its_own_jobs_within_its_rights() -> None:
    async def test(fixture: BrokerFixture) -> None:
        mine = await fixture.token("submit", bare=True, queues=("default",), priority_max=40)
        other, reader = await fixture.token("submit", bare=True), await fixture.token("read")
        await submit(fixture, None, 5)
        await submit(fixture, mine)
        assert (await edit(fixture, "6", token=other, set={"name": "n"})).status == 409
        assert (await editable(fixture, "6", other)).status == 409
        assert (await edit(fixture, "6", token=reader, set={"name": "n"})).status == 403
        assert (await editable(fixture, "6", reader)).status == 403, "it has the values of variables"
        assert (await edit(fixture, "5", token=mine, set={"name": "n"})).status == 409
        assert (await edit(fixture, "all", token=mine, set={"name": "n"})).json["ids"] == [6]
        for given, words in (
            ({"queue": "other"}, "your token may not use queue 'other'"),
            ({"priority": 99}, "your token may give priorities up to"),
            ({"cwd": "here"}, "must be an absolute path"),
            ({"python": "/venv"}, "from another machine takes no --send"),
        ):
            answer = await edit(fixture, "6", token=mine, set=given)
            assert words in answer.words, answer.body
        assert (await edit(fixture, "6", token=mine, set={"priority": 5})).status == 200

    play(test)


def test_a_job_keeps_the_terms_of_the_machine_it_came_from() -> None:
    async def test(fixture: BrokerFixture) -> None:
        bare = await fixture.token("submit", bare=True)
        admin = await fixture.token("admin", name="root")
        await submit(fixture, None, 5)
        await submit(fixture, bare)
        refused = await edit(fixture, "5", token=admin, set={"command": ["sh"]})
        assert "can be edited only there" in refused.words
        for token in (admin, None):
            given = {"command": ["anything"], "env": {"X": str(token is None)}}
            assert (await edit(fixture, "6", token=token, set=given)).status == 200
        [job] = await fixture.engine.read(lambda batch: [*batch.fetch([6]).values()])
        remote = job.spec.constraints.remote
        assert remote is not None and (remote.bare, remote.env) == (True, (b"X",))
        assert job.spec.by == job.token == bare.partition(".")[0] and job.spec.cwd == b""

    play(test)


def test_many_jobs_are_edited_in_one_commit_and_too_many_are_refused() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, None, 1200)
        before = fixture.engine.decider._store.number
        answer = await edit(fixture, "100-499", set={"priority": 9, "cpu": 0.5})
        assert (answer.json["count"], answer.json["jobs"], answer.json["changed"]) == (400, [], {})
        assert fixture.engine.decider._store.number == before + 1
        assert "more than 1,000 jobs" in (await edit(fixture, "all", set={"priority": 9})).words
        assert "more than 10 jobs" in (await editable(fixture, "all")).words
        left = await edit(fixture, "1-4,5", set={"priority": 9})
        assert "job 1 has started (placed)" in left.words
        audit = (fixture.home / "audit.log").read_text() if (fixture.home / "audit.log").exists() else ""
        assert not audit or "priority=..." in audit

    play(test)


async def move(fixture: BrokerFixture, *selectors: str, token: str | None = None, **body: Any) -> Answer:
    given = {"selectors": list(selectors), "key": key(), **body}
    return await fixture.ask("POST", "/v1/jobs/move", given, token=token, local=token is None)


def test_jobs_are_moved_by_selectors_and_a_token_moves_its_own() -> None:
    async def test(fixture: BrokerFixture) -> None:
        mine, reader = await fixture.token("submit", bare=True), await fixture.token("read")
        await submit(fixture, None, 6)
        await submit(fixture, mine, 2)
        assert (await move(fixture, "6", where="first")).json["ids"] == [6]
        assert (await move(fixture, "all", where="before", target="6")).status == 400, "6 is among all"
        moved = await move(fixture, "7-8", where="before", target="5")
        assert (moved.json["ids"], moved.json["notes"]) == ([7, 8], [])
        line = await fixture.engine.read(lambda batch: batch.board.next_ids(9))
        assert line == [6, 7, 8, 5]
        for asked in ("?count=3", "?count=3&queue=default"):
            shown = await fixture.ask("GET", f"/v1/line{asked}", token=reader)
            assert ([job["id"] for job in shown.json["jobs"]], shown.json["count"]) == ([6, 7, 8], 4)
        assert (await fixture.ask("GET", "/v1/line?queue=other", token=reader)).json == {"jobs": [], "count": 0}
        assert (await move(fixture, "7", where="first", token=reader)).status == 403
        assert "another token" in (await move(fixture, "5", where="last", token=mine)).words
        assert "this passes job 6" in (await move(fixture, "8", where="first", token=mine)).words
        assert "another token" in (await move(fixture, "8", where="before", target="6", token=mine)).words
        assert (await move(fixture, "8", where="before", target="7", token=mine)).json["ids"] == [8]
        # A place behind jobs of others is nobody's loss.
        assert (await move(fixture, "8", where="after", target="5", token=mine)).json["ids"] == [8]
        assert "this passes job 5" in (await move(fixture, "8", where="after", target="6", token=mine)).words
        assert await fixture.engine.read(lambda batch: batch.board.next_ids(9)) == [6, 7, 5, 8]
        for body in ({"where": "before"}, {"where": "first", "target": "7"}, {"where": "up"}, {}):
            assert (await move(fixture, "7", **body)).status == 400
        assert "job 1 has started (placed)" in (await move(fixture, "1", where="last")).words

    play(test)
