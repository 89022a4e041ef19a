"""GET /v1/jobs over HTTP: pages, one job by a selector, and questions that are refused."""

from __future__ import annotations

import pytest
from tests.web.subscribed import QUEUE, Rig, with_rig


def test_pages_go_on_at_the_cursor_and_say_where_changes_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        for _ in range(5):
            await rig.submit(hold=True)
        found, path = [], "/v1/jobs?state=held&order=asc&limit=2"
        cursor = ""
        while True:
            page = (await rig.fixture.ask("GET", path + cursor, token=await rig.fixture.token("read"))).json
            found += [job["id"] for job in page["jobs"]]
            if page["next"] is None:
                break
            assert len(page["jobs"]) == 2 and page["more"]
            cursor = f"&cursor={page['next']}"
        assert found == [1, 2, 3, 4, 5]
        await rig.submit(hold=True)
        stream = await rig.subscribe(f"?since={page['since']}", path="/v1/events")
        events = [(await stream.frame())[0] for _ in range(2)]
        assert [event["event"] for event in events] == ["subscribed", "submitted"] and events[1]["job"] == 6

    with_rig(test, monkeypatch)


def test_a_selector_names_jobs_and_nothing_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        for _ in range(3):
            await rig.submit(hold=True)
        one = (await rig.fixture.ask("GET", "/v1/jobs?selector=2", local=True)).json
        assert [job["id"] for job in one["jobs"]] == [2]
        assert one.keys() == {"schema", "jobs", "more", "next", "since"}, "no queues, no workers, no totals"
        some = (await rig.fixture.ask("GET", f"/v1/jobs?selector={QUEUE}&limit=2", local=True)).json
        assert ([job["id"] for job in some["jobs"]], some["more"]) == ([1, 2], True)
        assert (await rig.fixture.ask("GET", "/v1/jobs?selector=7", local=True)).status == 404

    with_rig(test, monkeypatch)


@pytest.mark.parametrize(
    "query",
    [
        "nosuch=1",
        "state=gone",
        "sort=name",
        "order=up",
        "limit=x",
        "limit=501",
        "cursor=x",
        "cursor=nan:1",
        "cursor=1:" + "9" * 30,
        "created_since=yesterday",
        "finished_until=inf",
        "text=" + "x" * 2000,
        "selector=1&state=held",
        "q=stat:x",
        "q=@",
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        answer = await rig.fixture.ask("GET", f"/v1/jobs?{query}", local=True)
        assert answer.status == 400 and answer.words

    with_rig(test, monkeypatch)


def test_a_query_narrows_a_list_as_it_does_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        for number in range(4):
            await rig.submit(hold=True, priority=number, name=f"lr{number}")
        for query, ids in (
            ("priority>1", [4, 3]),
            ("name:lr*+cpu>0+age<1h", [4, 3, 2, 1]),
            ("cpu>1", []),
            ("lr2", [3]),
        ):
            answer = await rig.fixture.ask("GET", f"/v1/jobs?q={query}", local=True)
            assert [job["id"] for job in answer.json["jobs"]] == ids

    with_rig(test, monkeypatch)


@pytest.mark.parametrize("time", ["2000-01-01T00:00:00Z", "946684800", "2000-01-01T00:00:00.000%2B00:00"])
def test_times_are_written_as_in_documents_or_in_seconds(time: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(hold=True)
        for name, count in (("created_since", 1), ("created_until", 0), ("finished_since", 0)):
            answer = await rig.fixture.ask("GET", f"/v1/jobs?{name}={time}", local=True)
            assert len(answer.json["jobs"]) == count

    with_rig(test, monkeypatch)
