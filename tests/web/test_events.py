"""GET /v1/events: committed changes as JSON lines that can be resumed, within a bound."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests import at_once
from tests.builders import a_job
from tests.web.broker_fixture import is_closed, key, until
from tests.web.subscribed import QUEUE, Rig, Stream, with_rig

from grassq.broker import subscriptions
from grassq.broker.job_change import JobChange, change_of
from grassq.core.model import State
from grassq.core.syntax.selectors import AllJobs, ByIds, ByName, ByQueue, ByState, Selector
from grassq.web.events import json_lines, temporary_queues
from grassq.web.events.json_lines import ChosenChanges

EVENTS = "/v1/events"


async def opened(rig: Rig, query: str = "", *, first: str = "subscribed") -> tuple[Stream, str]:
    """A stream, and the position in its first line."""
    stream = await rig.subscribe(query, path=EVENTS)
    document, _ = await stream.frame()
    assert document["event"] == first
    return stream, f"{document['epoch']}.{document['seq']}"


async def told(stream: Stream, count: int) -> list[tuple[int, str]]:
    documents = [(await stream.frame())[0] for _ in range(count)]
    return [(document["job"], document["event"]) for document in documents]


async def kill_all(rig: Rig) -> None:
    await rig.fixture.engine.change(lambda batch: at_once.kill(batch, [AllJobs()], None))


def test_changes_come_in_order_and_go_on_from_a_position(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        stream, begin = await opened(rig)
        job = await rig.submit()
        await rig.end(job)
        lines = [(await stream.frame())[0] for _ in range(3)]
        assert [line["event"] for line in lines] == ["submitted", "placed", "exited"]
        assert (lines[1]["worker"], lines[2]["state"], lines[2]["exit_code"]) == ("w", "succeeded", 0)
        stream.writer.close()
        await rig.submit(hold=True)
        middle = f"{lines[1]['epoch']}.{lines[1]['seq']}"
        again, _ = await opened(rig, f"?since={middle}")
        assert await told(again, 2) == [(1, "exited"), (2, "submitted")]
        whole, _ = await opened(rig, f"?since={begin}")
        assert await told(whole, 4) == [(1, "submitted"), (1, "placed"), (1, "exited"), (2, "submitted")]

    with_rig(test, monkeypatch)


def test_a_position_that_is_not_known_any_more_is_answered_with_reread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "RING_MAX", 2)

    async def test(rig: Rig) -> None:
        _, begin = await opened(rig)
        for _ in range(3):
            await rig.submit(hold=True)
        for position in (begin, "another.1"):
            stream, _ = await opened(rig, f"?since={position}", first="reread")
            await rig.submit(hold=True)
            assert [event for _, event in await told(stream, 1)] == ["submitted"], "and what comes is told"

    with_rig(test, monkeypatch)


@pytest.mark.parametrize("selector", [QUEUE, f"queue:{QUEUE}", "1", "@", "name:mine", "held"])
def test_only_changes_of_selected_jobs_are_told(selector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(hold=True, name="mine")
        stream, _ = await opened(rig, f"?selector={selector}&selector=77")
        await rig.submit(queue="default", name="other")
        await rig.fixture.engine.change(lambda batch: at_once.set_priority(batch, [AllJobs()], 40))
        assert await told(stream, 1) == [(1, "priority")]

    with_rig(test, monkeypatch)


def test_silence_is_broken_by_heartbeats_with_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "HEARTBEAT_S", 0.1)

    async def test(rig: Rig) -> None:
        stream, _ = await opened(rig, "?selector=77")
        await rig.submit(hold=True)
        await until(lambda: rig.fixture.engine.subscriptions.position[1] == 1)
        while (line := (await stream.frame())[0])["seq"] != 1:
            pass
        assert line["event"] == "heartbeat"

    with_rig(test, monkeypatch)


def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PENDING_MAX", 20)

    async def test(rig: Rig) -> None:
        stream, begin = await opened(rig)
        await rig.submit(hold=True)
        change = (await stream.frame())[0]
        ring = rig.fixture.engine.subscriptions
        large = replace(ring._ring[-1], detail="x" * 500_000)
        for _ in range(30):
            ring.publish([replace(large, seq=ring.position[1] + 1)])
            await asyncio.sleep(0)
        assert change["event"] == "submitted"
        assert await is_closed(stream.reader)
        # When it comes back it is told the rest, or as here, that there is too much of it.
        await opened(rig, f"?since={begin}", first="reread")

    with_rig(test, monkeypatch)


def test_a_reader_that_is_only_slow_is_told_to_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PENDING_MAX", 2)

    async def test(rig: Rig) -> None:
        stream, _ = await opened(rig)
        for _ in range(3):
            await rig.submit(hold=True)
        await told(stream, 3)
        await kill_all(rig)
        assert (await stream.frame())[0]["event"] == "reread"

    with_rig(test, monkeypatch)


def test_who_may_read_jobs_may_read_their_changes_until_the_token_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        fixture = rig.fixture
        for scope, status in (("worker", 403), ("read", 200)):
            token = await fixture.token(scope)  # type: ignore[arg-type]
            reader, writer = await fixture.connect()
            writer.write(f"GET {EVENTS} HTTP/1.1\r\nHost: grass\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            assert f" {status} ".encode() in await reader.readline()
        body = {"id": token.partition(".")[0], "key": key()}
        assert (await fixture.ask("POST", "/v1/tokens/revoke", body, local=True)).status == 200
        assert await is_closed(reader)
        assert (await fixture.ask("GET", EVENTS)).status == 401

    with_rig(test, monkeypatch)


def test_a_reader_of_events_keeps_no_temporary_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_queues, "BACK_S", 0.2)

    async def test(rig: Rig) -> None:
        await opened(rig, f"?selector={QUEUE}")
        await until(lambda: rig.gone == [QUEUE])

    with_rig(test, monkeypatch)


@pytest.mark.parametrize("query", ["?since=7", "?since=x.y", "?since=." + "9" * 30, "?selector=", "?selector=7-3"])
def test_bad_questions_are_refused_in_words(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.fixture.ask("GET", EVENTS + query, local=True)
        assert answer.status == 400 and answer.words

    with_rig(test, monkeypatch)


IDS = st.tuples(st.integers(1, 9), st.integers(0, 4)).map(lambda ends: (ends[0], ends[0] + ends[1]))
SELECTORS = st.one_of(
    st.builds(AllJobs),
    st.builds(ByIds, st.lists(IDS, min_size=1, max_size=4).map(tuple)),
    st.builds(ByQueue, st.sampled_from("qr")),
    st.builds(ByName, st.sampled_from("nm")),
    st.builds(ByState, st.sampled_from([("queued",), ("held", "failed")])),
)


def _names(selector: Selector, change: JobChange) -> bool:
    match selector:
        case ByIds(ranges):
            return any(low <= change.last and change.job <= high for low, high in ranges)
        case ByQueue(name):
            return change.queue == name
        case ByName(name):
            return change.name == name
        case ByState(names):
            return change.state in names
        case _:
            return True


@given(
    st.lists(SELECTORS, max_size=5), IDS, st.sampled_from("qs"), st.sampled_from(["n", None]), st.sampled_from(State)
)
def test_a_change_is_chosen_if_any_selector_names_it(
    selectors: list[Selector], ids: tuple[int, int], queue: str, name: str | None, state: State
) -> None:
    job = replace(a_job(ids[0], queue, state=state), name=name)
    change = change_of(job, 1, 0.0, "held", last=ids[1])
    assert ChosenChanges(selectors).has(change) == (not selectors or any(_names(each, change) for each in selectors))
