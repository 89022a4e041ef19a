"""Whether a caller may change a job: every answer that a page makes buttons of says what the actions then do."""

from __future__ import annotations

from typing import Any

from tests.web.broker_fixture import BrokerFixture, key, play
from tests.web.live_page import page
from tests.web.test_act import act


async def a_job(fixture: BrokerFixture, token: str | None) -> int:
    body = {"jobs": [{"command": ["true"]}], "key": key()}
    answer = await fixture.ask("POST", "/v1/submit", body, token=token, local=token is None)
    assert answer.status == 200, answer.words
    return int(answer.json["ids"][0])


async def said(fixture: BrokerFixture, token: str | None) -> dict[int, bool]:
    """What every answer says, which must be the same everywhere."""

    async def got(path: str) -> Any:
        answer = await fixture.ask("GET", path, token=token, local=token is None)
        assert answer.status == 200, answer.words
        return answer.json

    windows = [await got("/v1/jobs/window"), await got("/v1/jobs/window?q=true&sort=name"), await got("/v1/line")]
    answers = [{job["id"]: job["may_change"] for job in each["jobs"]} for each in windows]
    answers.append({id_: (await got(f"/v1/jobs/{id_}"))["job"]["may_change"] for id_ in answers[0]})
    async with page(fixture, token=token, jobs=[*answers[0], 999]) as seen:
        await seen.until(lambda: len(seen.jobs) > len(answers[0]))
        assert seen.jobs.pop(999) is None
        answers.append({id_: job["may_change"] for id_, job in seen.jobs.items()})
    assert all(each == answers[0] for each in answers), answers
    return answers[0]


def test_a_caller_is_told_which_jobs_it_may_change_and_that_is_so() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await fixture.ask("POST", "/v1/pause", {"key": key()}, local=True)
        mine, other = await fixture.token("submit", bare=True), await fixture.token("submit", bare=True)
        owners, own, others = await a_job(fixture, None), await a_job(fixture, mine), await a_job(fixture, other)
        everybody = {owners, own, others}

        assert await said(fixture, mine) == {id_: id_ == own for id_ in everybody}
        assert await said(fixture, other) == {id_: id_ == others for id_ in everybody}
        assert await said(fixture, await fixture.token("read")) == dict.fromkeys(everybody, False)
        assert await said(fixture, await fixture.token("admin")) == dict.fromkeys(everybody, True)
        assert await said(fixture, None) == dict.fromkeys(everybody, True)

        # What is said is what is done, for each verb that a page has a button for.
        for verb in ("hold", "release", "priority", "kill", "rerun", "clean"):
            told = (await act(fixture, verb, mine, ids=[*everybody], preview=True)).json
            assert told["states"].keys() <= {"held", "queued", "cancelled"} and told["count"] == 1, (verb, told)
            changed = (await act(fixture, verb, mine, ids=[*everybody])).json
            assert changed["count"] == 1 and (verb == "rerun" or changed["ids"] == [own]), (verb, changed)

        # A job of somebody else is not run again by this token, and the answer about it does not offer that.
        await act(fixture, "kill", ids=[others])
        offered = {
            token: (await fixture.ask("GET", f"/v1/jobs/{others}/submission", token=token)).json["rerun_of"]
            for token in (mine, other)
        }
        assert offered == {mine: None, other: others}

    play(test)
