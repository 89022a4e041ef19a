"""The jobs of a token: what it may have at a time, and what becomes of its jobs when it is revoked."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import a_worker
from tests.web.broker_fixture import Answer, BrokerFixture, exchange, key, play

from grassq.broker.inbox import FromWorker
from grassq.broker.tokens import TokenLimits
from grassq.core.messages import Hello, Report
from grassq.core.model import Outcome
from grassq.core.states import Exited, Started


async def submit(fixture: BrokerFixture, token: str | None, count: int = 1, **more: Any) -> Answer:
    """Submit jobs of one cpu each; the fixture's worker has four."""
    jobs = [{"command": ["true"], **more}] * count
    return await fixture.ask("POST", "/v1/submit", {"jobs": jobs, "key": key()}, token=token, local=token is None)


async def revoke(fixture: BrokerFixture, token: str, **more: Any) -> Any:
    body = {"id": token.partition(".")[0], "key": key(), **more}
    answer = await fixture.ask("POST", "/v1/tokens/revoke", body, local=True)
    assert answer.status == 200, answer.body
    return answer.json


async def act(fixture: BrokerFixture, verb: str, token: str | None = None, **body: Any) -> Answer:
    body = {"key": key(), **body}
    return await fixture.ask("POST", f"/v1/jobs/{verb}", body, token=token, local=token is None)


async def states(fixture: BrokerFixture) -> list[str]:
    shown = await fixture.ask("GET", "/v1/show?selector=all", local=True)
    return [job["state"] for job in shown.json["jobs"]]


async def end(fixture: BrokerFixture, *jobs: int, code: int = 0) -> None:
    for job in jobs:
        fixture.engine.post(FromWorker("w", Report(job, Started(1, 7))))
        fixture.engine.post(FromWorker("w", Report(job, Exited(1, Outcome.EXITED, code))))
    await fixture.engine.read(lambda batch: None)


def test_revoking_a_token_holds_what_it_queued_and_says_how_many() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, token, 6)
        await submit(fixture, None)
        assert await revoke(fixture, token) == {
            "id": token.partition(".")[0], "name": "ann", "held": 2, "killed": 0, "running": 4,
        }  # fmt: skip
        assert await states(fixture) == ["placed"] * 4 + ["held"] * 2 + ["queued"]
        await end(fixture, 1, 2, 3, 4)
        assert await states(fixture) == ["succeeded"] * 4 + ["held"] * 2 + ["placed"], "the owner's job goes on"
        [held] = (await fixture.ask("GET", "/v1/show?selector=5", local=True)).json["jobs"]
        assert held["reason"] == "the token it was submitted with was revoked; `grass release 5` lets it go on"

    play(test)


def test_the_jobs_of_a_token_that_its_holder_gives_up_go_on_until_the_token_is_revoked() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, token, 6)
        assert (await fixture.ask("POST", "/v1/logout", {"key": key()}, token=token)).status == 200
        fixture.engine.decider.stale = True  # the board is read again from the store
        await end(fixture, 1)
        assert await states(fixture) == ["succeeded"] + ["placed"] * 4 + ["queued"]
        assert (await revoke(fixture, token))["held"] == 1
        await end(fixture, 2)
        assert await states(fixture) == ["succeeded"] * 2 + ["placed"] * 3 + ["held"]

    play(test)


@pytest.mark.parametrize("scope", ["owner", "admin"])
def test_a_job_of_a_revoked_token_starts_when_somebody_with_the_right_releases_it(scope: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        admin = await fixture.token("admin") if scope == "admin" else None
        await submit(fixture, token, 2, hold=True)
        await revoke(fixture, token)
        assert (await act(fixture, "release", admin, selectors=["1"])).json["count"] == 1
        assert await states(fixture) == ["placed", "held"]
        shown = await fixture.ask("GET", f"/v1/show?selector=token:{token.partition('.')[0]}", local=True)
        assert [job["id"] for job in shown.json["jobs"]] == [2]

    play(test)


def test_revoking_with_kill_ends_what_waits_and_what_runs() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, token, 5)
        assert (await revoke(fixture, token, kill=True))["killed"] == 5
        assert await states(fixture) == ["placed"] * 4 + ["cancelled"]
        await end(fixture, 1, 2, 3, 4)
        assert await states(fixture) == ["cancelled"] * 5

    play(test)


def test_a_job_that_would_be_tried_again_is_held_when_its_token_has_ended() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, token, tries=3)
        await revoke(fixture, token)
        await end(fixture, 1, code=1)
        assert await states(fixture) == ["held"]

    play(test)


def test_a_request_that_was_under_way_when_its_token_ended_starts_nothing() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        id_ = token.partition(".")[0]
        await submit(fixture, token)
        await end(fixture, 1)
        # The request was admitted before; the token ends in the batch in which the request arrives.
        fixture.engine.decider.board.ended_tokens.add(id_)
        for answer in (await submit(fixture, token), await act(fixture, "rerun", token, selectors=["1"])):
            assert (answer.json["error"]["exit"], "token was revoked" in answer.words) == (5, True)
        assert await states(fixture) == ["succeeded"]

    play(test)


def test_a_job_of_a_revoked_token_that_was_not_held_yet_is_held_instead_of_placed() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, token, 6)
        # The daemon was killed between the commit that ended the token and the steps that hold its jobs.
        fixture.engine.decider.board.ended_tokens.add(token.partition(".")[0])
        await end(fixture, 1, 2)
        assert await states(fixture) == ["succeeded"] * 2 + ["placed"] * 2 + ["held"] * 2

    play(test)


def test_a_job_of_a_revoked_token_that_was_not_held_yet_reserves_nothing() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, None, 3)
        await submit(fixture, token, request={"cpu": 4})
        assert await states(fixture) == ["placed"] * 3 + ["queued"]
        fixture.engine.decider.board.ended_tokens.add(token.partition(".")[0])
        await submit(fixture, None, 2)
        assert await states(fixture) == ["placed"] * 3 + ["held", "placed", "queued"]

    play(test)


def test_a_revoked_token_stays_revoked_for_its_jobs_when_the_broker_reads_its_store_again() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)
        await submit(fixture, token, 2, on_lost="requeue")
        await revoke(fixture, token)
        fixture.engine.decider.stale = True
        await fixture.engine.read(lambda batch: None)
        fixture.engine.post(FromWorker("w", Hello(a_worker("w", cpu=4, boot="another"))))
        await end(fixture, 1)
        assert set(await states(fixture)) <= {"succeeded", "placed"}
        assert token.partition(".")[0] in fixture.engine.decider.board.ended_tokens

    play(test)


def test_a_token_has_a_limit_of_unfinished_jobs_and_another_token_has_its_own() -> None:
    async def test(fixture: BrokerFixture) -> None:
        fixture.guard._limits = TokenLimits(jobs=5)
        ann, bob = [await fixture.token("submit", bare=True) for _ in range(2)]
        assert (await submit(fixture, ann, 5)).status == 200
        refused = await submit(fixture, ann)
        assert refused.json["error"]["exit"] == 5
        assert "your token may have 5 unfinished jobs, has 5, and this would add 1;" in refused.words
        assert "token_jobs" in refused.words
        enqueued = await fixture.ask(
            "POST", "/v1/enqueue", {"words": ["--queue", "default", "true"], "key": key()}, token=ann
        )
        assert enqueued.headers["grass-exit"] == "5" and b"unfinished jobs" in enqueued.body
        assert (await submit(fixture, bob, 5)).status == 200
        assert (await submit(fixture, None, 9)).status == 200, "the owner has no limit"
        await end(fixture, 1)
        assert (await act(fixture, "rerun", ann, selectors=["1"])).status == 200
        assert "unfinished jobs" in (await act(fixture, "rerun", ann, selectors=["1"])).words

    play(test)


def test_a_token_has_a_limit_of_stored_bytes() -> None:
    async def test(fixture: BrokerFixture) -> None:
        fixture.guard._limits = TokenLimits(bytes=1 << 20)
        token = await fixture.token("submit", bare=True)
        big: dict[str, Any] = {"command": ["echo", *["x" * 100_000] * 6]}
        assert (await submit(fixture, token, **big)).status == 200
        refused = await submit(fixture, token, **big)
        assert refused.json["error"]["exit"] == 5
        assert "may take 1.0 MiB, take 0.6 MiB, and this would add 0.6 MiB" in refused.words
        await end(fixture, 1)
        assert (await submit(fixture, token, **big)).status == 200
        many = {"labels": ["l" * 60 + str(number) for number in range(100)], "queue": "later"}
        assert "may take 1.0 MiB" in (await submit(fixture, token, 80, **many)).words, "labels count too"

    play(test)


@pytest.mark.parametrize(("more", "most"), [({}, 30), ({"priority_max": 50}, 50)])
def test_a_token_gives_no_priority_above_its_own(more: dict[str, int], most: int) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True, **more)
        assert (await submit(fixture, token, priority=most, hold=True)).status == 200
        for refused in (
            await submit(fixture, token, priority=most + 1),
            await act(fixture, "priority", token, selectors=["1"], priority=most + 1),
        ):
            assert refused.json["error"]["exit"] == 5
            assert f"your token may give priorities up to {most}, not {most + 1}" in refused.words
        assert (await act(fixture, "priority", selectors=["1"], priority=90)).status == 200, "the owner may"
        assert (await act(fixture, "release", token, selectors=["1"])).status == 200
        await end(fixture, 1)
        assert (await act(fixture, "rerun", token, selectors=["1"])).status == 200
        [job] = await fixture.engine.read(lambda batch: batch.store.some([2]))
        assert job.priority == most, "a rerun does not take over what the owner gave"

    play(test)


def test_an_admin_has_no_limits_and_its_jobs_are_held_too() -> None:
    async def test(fixture: BrokerFixture) -> None:
        fixture.guard._limits = TokenLimits(jobs=1, bytes=1)
        admin = await fixture.token("admin")
        assert (await submit(fixture, admin, 6, priority=90)).status == 200
        assert (await revoke(fixture, admin))["held"] == 2

    play(test)


def test_a_code_gives_its_priority_to_the_token_and_the_list_says_what_a_token_uses() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True, priority_max=7)
        await submit(fixture, token, 3, priority=7)
        [listed] = (await fixture.ask("GET", "/v1/tokens", local=True)).json["tokens"]
        assert (listed["priority_max"], listed["jobs"]) == (7, 3) and listed["bytes"] > 0
        wrong = {"scope": "read", "priority_max": 7, "key": key()}
        answer = await fixture.ask("POST", "/v1/tokens/create", wrong, local=True)
        assert answer.json["error"]["exit"] == 2

    play(test)


def test_an_admin_that_revokes_its_own_token_gets_the_answer() -> None:
    async def test(fixture: BrokerFixture) -> None:
        admin = await fixture.token("admin")
        await submit(fixture, admin, 6)
        reader, writer = await fixture.connect()
        body = {"id": admin.partition(".")[0], "key": key()}
        answer = await exchange(reader, writer, "POST", "/v1/tokens/revoke", body, admin)
        assert (answer.status, answer.json["held"]) == (200, 2)

    play(test)
