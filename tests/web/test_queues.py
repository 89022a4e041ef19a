"""The routes of queues and workers: where they go, and what they answer."""

from __future__ import annotations

import pytest
from tests.broker.decider_fixture import a_draft
from tests.web.broker_fixture import BrokerFixture, key, play

from grassq.broker import service
from grassq.broker.engine import Engine
from grassq.errors import Refused


def words(*given: str) -> dict[str, object]:
    return {"words": list(given), "key": key()}


def test_a_queue_is_made_on_the_machine_it_is_typed_on_or_on_the_worker_named() -> None:
    async def test(fixture: BrokerFixture) -> None:
        here = await fixture.ask("POST", "/v1/create-queue", words("fast"), local=True)
        assert here.json["status"] == "created"
        admin = await fixture.token("admin")
        there = await fixture.ask("POST", "/v1/create-queue", words("--worker", "box", "far"), admin)
        assert there.status == 200, there
        assert [(worker, offer.queue) for worker, offer in fixture.directory.made] == [(None, "fast"), ("box", "far")]

    play(test)


@pytest.mark.parametrize("path", ["/v1/create-queue", "/v1/delete-queue"])
def test_from_another_machine_a_worker_must_be_named(path: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        admin = await fixture.token("admin")
        body = words("fast") if "create" in path else {"name": "fast", "key": key()}
        answer = await fixture.ask("POST", path, body, admin)
        assert answer.status == 400 and "--worker" in answer.words and not fixture.directory.made

    play(test)


def test_a_worker_that_cannot_be_asked_is_told_in_words() -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await fixture.ask("POST", "/v1/create-queue", words("--worker", "gone", "q"), local=True)
        assert answer.status == 409 and "out of touch" in answer.words
        unknown = await fixture.ask("POST", "/v1/delete-queue", {"name": "q", "worker": "w", "key": key()}, local=True)
        assert unknown.status == 404 and "on w" in unknown.words

    play(test)


@pytest.mark.parametrize(
    ("jobs", "note"), [(1, ["1 unfinished job belongs"]), (2, ["2 unfinished jobs belong"]), (0, [])]
)
def test_deleting_a_queue_says_how_many_jobs_it_leaves(jobs: int, note: list[str]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        made = words("--at-broker", "--label", "nowhere", "far")
        assert (await fixture.ask("POST", "/v1/create-queue", made, local=True)).status == 200
        drafts = [a_draft("far")] * jobs
        await fixture.engine.change(lambda batch: service.submit(batch, drafts, "s", b"d"))
        body = {"name": "far", "at_broker": True, "key": key()}
        answer = await fixture.ask("POST", "/v1/delete-queue", body, local=True)
        assert [words.partition(" to it")[0] for words in answer.json["notes"]] == note

    play(test)


def test_a_drained_worker_is_drained_until_told_otherwise() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for undo in (False, True):
            answer = await fixture.ask("POST", "/v1/drain", {"worker": "w", "undo": undo, "key": key()}, local=True)
            assert answer.status == 200 and answer.json["drained"] is not undo, answer
            drained = await fixture.engine.read(lambda batch: batch.board.workers["w"].drained)
            assert drained is not undo
        unknown = await fixture.ask("POST", "/v1/drain", {"worker": "nosuch", "key": key()}, local=True)
        assert unknown.status == 404

    play(test)


def test_removing_a_worker_ends_its_token() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("worker", name="old")
        body = {"worker": "old", "lost": True, "key": key()}
        answer = await fixture.ask("POST", "/v1/remove-worker", body, local=True)
        assert answer.status == 200, answer
        again = await fixture.ask("POST", "/v1/remove-worker", body | {"key": key()}, local=True)
        assert again.status == 404
        assert (await fixture.ask("GET", "/v1/worker", token=token)).status == 401

    play(test)


def test_the_token_of_a_removed_worker_ends_also_when_the_broker_takes_no_more_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("worker", name="old")

        async def refuse(self: Engine, handler: object) -> None:
            raise Refused("too many requests are waiting already")

        monkeypatch.setattr(Engine, "read", refuse)
        await fixture.ask("POST", "/v1/remove-worker", {"worker": "old", "key": key()}, local=True)
        monkeypatch.undo()
        assert (await fixture.ask("GET", "/v1/worker", token=token)).status == 401

    play(test)


def test_going_on_after_a_restore_concerns_the_whole_broker() -> None:
    async def test(fixture: BrokerFixture) -> None:
        body = {"restored": True, "queue": "default", "key": key()}
        assert (await fixture.ask("POST", "/v1/resume", body, local=True)).status == 400
        assert (await fixture.ask("POST", "/v1/pause", {"restored": True, "key": key()}, local=True)).status == 400
        answer = await fixture.ask("POST", "/v1/resume", {"restored": True, "key": key()}, local=True)
        assert answer.json == {"all": False, "queues": [], "notes": ["no restore in progress"]}

    play(test)
