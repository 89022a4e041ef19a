"""POST /v1/jobs/act: what matches a query is changed, once, and nothing else; a preview tells it before."""

from __future__ import annotations

from typing import Any

import pytest
from tests.web.broker_fixture import Answer, BrokerFixture, key, play
from tests.web.test_job_window import change, submit, window

from grassq.web.tables import windows


async def act(fixture: BrokerFixture, action: str, token: str | None = None, **more: Any) -> Answer:
    body = {"action": action, "key": key(), **more}
    return await fixture.ask("POST", "/v1/jobs/act", body, token=token, local=token is None)


async def done(fixture: BrokerFixture, action: str, **more: Any) -> dict[str, Any]:
    answer = await act(fixture, action, **more)
    assert answer.status == 200, answer.words
    found: dict[str, Any] = answer.json
    return found


async def matching(fixture: BrokerFixture, q: str) -> int:
    while not (found := await window(fixture, q=q))["is_exact"]:
        assert found["count"] <= 3000, "a table that is being read tells what it has so far"
    return int(found["count"])


def test_all_that_match_but_a_few_are_changed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "BUILD_WAIT_S", 0.001)

    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, *({"name": "a"} for _ in range(1250)), *({"name": "b"} for _ in range(20)))
        await change(fixture, "kill", "name:a")
        left, asked = [1, 2, 3], {"q": "name:a cancelled", "except": [1, 2, 3]}
        preview = await done(fixture, "rerun", preview=True, **asked)
        assert (preview["count"], preview["states"], preview["matched"]) == (1247, {"cancelled": 1247}, 1247)
        assert preview["skipped"] == {"count": 0, "states": {}} and preview["upto"] == 1270
        assert await matching(fixture, "name:a") == 1250, "a preview changes nothing"
        # A job that came after the preview is not touched.
        await submit(fixture, {"name": "a"})
        await change(fixture, "kill", "1271")
        same = {"key": key(), **asked, "upto": preview["upto"], "fingerprint": preview["fingerprint"]}
        first = await done(fixture, "rerun", **same)
        assert first["count"] == 1247 and len({*first["ids"]}) == 1247 and min(first["ids"]) == 1272
        again = await done(fixture, "rerun", **same)
        assert (again["count"], again["ids"], again["matched"]) == (1247, first["ids"], None)
        assert await matching(fixture, "name:a") == 1251 + 1247 and await matching(fixture, "name:b") == 20
        runs = (await window(fixture, q="id:1272-2518", count=500))["jobs"]
        assert {job["rerun_of"] for job in runs}.isdisjoint({*left, 1271})
        lines = (await fixture.ask("GET", "/v1/audit", local=True)).json["entries"]
        acts = [line["about"] for line in lines if line["path"] == "/v1/jobs/act" and "preview" not in line["about"]]
        assert acts == ["rerun q=name:a cancelled except 3"] * 2, "one line for each request"

    play(test)


def test_a_preview_says_what_would_be_skipped() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await submit(fixture, *({} for _ in range(6)))
        await submit(fixture, {"hold": False})
        await change(fixture, "kill", "1-2")
        told = await done(fixture, "hold", q="id:1-6", preview=True)
        assert (told["count"], told["states"]) == (4, {"held": 4})
        assert told["skipped"] == {"count": 2, "states": {"cancelled": 2}}
        told = await done(fixture, "kill", ids=[2, 3, 99], preview=True)
        assert (told["matched"], told["count"], told["skipped"]["count"]) == (3, 1, 1)
        assert (await done(fixture, "priority", ids=[3, 4], priority=77))["count"] == 2
        assert await matching(fixture, "priority:77") == 2
        assert (await done(fixture, "release", q="priority:77"))["count"] == 2
        assert (await done(fixture, "kill", q="priority:77", grace_s=0))["ids"] == [3, 4]
        assert (await done(fixture, "clean", q="failed,cancelled succeeded"))["count"] == 2
        assert await matching(fixture, "") == 5

    play(test)


def test_an_action_is_refused_if_it_is_about_other_jobs_than_were_shown() -> None:
    async def test(fixture: BrokerFixture) -> None:
        async def refused(words: str, action: str, shown: dict[str, Any], **more: Any) -> None:
            told = {"upto": shown["upto"], "fingerprint": shown["fingerprint"]}
            answer = await act(fixture, action, **more, **told)
            assert answer.status == 409 and words in answer.words and "nothing was done" in answer.words, answer

        await submit(fixture, *({"name": "a"} for _ in range(6)))
        shown = await done(fixture, "kill", q="held", preview=True)
        await change(fixture, "kill", "6")
        await refused("5 jobs match now and not 6", "kill", shown, q="held")

        # One job leaves and another comes: as many as before, and none of them too new.
        shown = await done(fixture, "kill", q="held", preview=True)
        assert shown["matched"] == 5
        await change(fixture, "priority", "1", priority=40)
        shown = await done(fixture, "kill", q="held priority:30", preview=True)
        await change(fixture, "priority", "1", priority=30)
        await change(fixture, "priority", "2", priority=40)
        await refused("other jobs are meant now", "kill", shown, q="held priority:30")
        assert await matching(fixture, "held") == 5

        # The same jobs match, but more of them would be removed than was said.
        shown = await done(fixture, "clean", q="name:a", preview=True)
        assert (shown["matched"], shown["count"]) == (6, 1)
        await change(fixture, "kill", "5")
        await refused("other jobs are meant now", "clean", shown, q="name:a")
        await refused("other jobs are meant now", "clean", shown, ids=[*range(1, 7)])
        assert await matching(fixture, "") == 6

        # A fingerprint is of one action. That a job has ended makes no other set of jobs to kill.
        again = await done(fixture, "hold", q="name:a", preview=True)
        await refused("other jobs are meant now", "kill", again, q="name:a")
        shown = await done(fixture, "kill", q="name:a", preview=True)
        await change(fixture, "kill", "4")
        told = {"upto": shown["upto"], "fingerprint": shown["fingerprint"]}
        assert (await done(fixture, "kill", q="name:a", **told))["ids"] == [1, 2, 3]

        shown = await done(fixture, "clean", q="name:a", preview=True, keep_logs=True)
        told = {"upto": shown["upto"], "fingerprint": shown["fingerprint"], "keep_logs": True}
        cleaned = await done(fixture, "clean", q="name:a", **told)
        assert cleaned["count"] == 6 and "kept" in cleaned

    play(test)


def test_a_submit_token_changes_its_own_jobs_only_and_a_read_token_none() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, {}, {})
        body = {"jobs": [{"command": ["true"], "hold": True}], "key": key()}
        own = (await fixture.ask("POST", "/v1/submit", body, token=token)).json["ids"]
        assert (await act(fixture, "kill", token, q="held", preview=True)).json["count"] == 1
        assert (await act(fixture, "kill", token, q="held")).json["ids"] == own
        assert (await act(fixture, "kill", token, ids=[1, 2])).json["ids"] == []
        assert await matching(fixture, "held") == 2
        assert (await act(fixture, "kill", await fixture.token("read"), q="held")).status == 403

    play(test)


@pytest.mark.parametrize(
    "body",
    [
        {"action": "kill"},
        {"action": "kill", "q": "x", "ids": [1]},
        {"action": "shoot", "q": ""},
        {"action": "kill", "q": "stat:x"},
        {"action": "kill", "ids": [0]},
        {"action": "kill", "ids": [*range(1, 10_002)]},
        {"action": "priority", "q": "", "priority": 10**9},
        {"action": "kill", "q": "", "nosuch": 1},
        {"action": "kill", "q": "", "fingerprint": "3"},
        {"action": "kill", "q": "", "fingerprint": f"{10**20}-{'0' * 32}"},
    ],
)
def test_a_wrong_body_is_refused_with_words(body: dict[str, Any]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await fixture.ask("POST", "/v1/jobs/act", {"key": key(), **body}, local=True)
        assert answer.status == 400 and "\n" not in answer.words

    play(test)
