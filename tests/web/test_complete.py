"""GET /v1/complete over HTTP: what a shell is offered, and what it may ask."""

from __future__ import annotations

import pytest
from tests.web.subscribed import QUEUE, Rig, with_rig


async def rows(rig: Rig, query: str) -> list[list[str]]:
    answer = await rig.fixture.ask("GET", f"/v1/complete?{query}", token=await rig.fixture.token("read"))
    assert answer.status == 200
    found: list[list[str]] = answer.json["rows"]
    return found


def test_jobs_are_found_by_the_digits_of_their_ids_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        for number in range(1, 13):
            await rig.submit(hold=number == 11, name=f"n{number % 2}", command=["sh", "-c", f"echo {number}\n\x1b[2J"])
        assert [word for word, _ in await rows(rig, "kind=job&prefix=1")] == ["12", "11", "10", "1"]
        assert await rows(rig, "kind=job&states=held") == [["11", "held sh -c echo 11\\n\\x1b[2J"]]
        assert await rows(rig, "kind=job&prefix=x") == [] == await rows(rig, "kind=job&prefix=0")
        assert [word for word, _ in await rows(rig, "kind=name&prefix=n")] == ["n0", "n1"]
        both = await rows(rig, "kind=queue,name")
        assert [word for word, _ in both] == ["default", QUEUE, "n0", "n1"]
        await rig.end(1)
        assert [word for word, _ in await rows(rig, "kind=job&prefix=1&states=held,queued")] == ["12", "11", "10"]

    with_rig(test, monkeypatch)


def test_queues_workers_and_resources_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(hold=True, tags={"team": "a", "kind": "x"}, project="vision")
        await rig.submit(hold=True, tags={"team": "b"})
        assert [word for word, _ in await rows(rig, "kind=tag")] == ["kind=", "team="]
        assert [word for word, _ in await rows(rig, "kind=tag&prefix=te")] == ["team="]
        assert [word for word, _ in await rows(rig, "kind=tag&prefix=team%3D")] == ["team=a", "team=b"]
        assert await rows(rig, "kind=tag&prefix=team%3Db") == [["team=b", ""]]
        assert await rows(rig, "kind=tag&prefix=no%3D") == [] == await rows(rig, "kind=sweep")
        assert [word for word, _ in await rows(rig, "kind=project&prefix=v")] == ["vision"]
        assert await rows(rig, "kind=worker") == [["w", "worker"]]
        assert ["cpu", ""] in await rows(rig, "kind=resource") and await rows(rig, "kind=label") == []
        assert await rows(rig, "kind=machine") == []

    with_rig(test, monkeypatch)


@pytest.mark.parametrize(
    "query", ["", "kind=jobs", "kind=job&states=gone", "kind=job&prefix=" + "x" * 101, "kind=job,"]
)
def test_a_question_that_makes_no_sense_is_refused(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        assert (await rig.fixture.ask("GET", f"/v1/complete?{query}", local=True)).status == 400

    with_rig(test, monkeypatch)
