"""Whose jobs are those of a page: of this machine on the owner's own page, of a token on every other."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.web.broker_fixture import Answer, BrokerFixture, key, play
from tests.web.browser import Browser, a_link, a_page

from grassq.core.model import Job


async def enqueue(ask: Any, *words: str, **more: object) -> Answer:
    body = {"key": key(), "words": ["--hold", "--queue", "default", *words], **more}
    answer: Answer = await ask("POST", "/v1/enqueue", body)
    assert answer.headers.get("grass-exit") == "0", answer
    return answer


async def stored(fixture: BrokerFixture, id_: int) -> Job:
    job = await fixture.engine.read(lambda batch: batch.job(id_))
    assert job is not None
    return job


def test_a_job_of_the_own_page_is_one_of_the_owner() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture)
        await enqueue(page.ask, "true", cwd="/usr")
        job = await stored(fixture, 1)
        assert (job.spec.cwd, job.spec.by, job.token, job.spec.constraints.remote) == (b"/usr", None, None, None)
        relative = {"key": key(), "words": ["true"], "cwd": "here"}
        assert (await page.ask("POST", "/v1/enqueue", relative)).headers["grass-exit"] == "2"
        # It may edit what the owner submitted on the command line, and make a queue on this machine.
        await enqueue(partial(fixture.ask, local=True), "true", cwd="/")
        edit = {"key": key(), "selectors": ["2"], "set": {"name": "new"}}
        assert (await page.ask("POST", "/v1/jobs/edit", edit)).status == 200
        made = await page.ask("POST", "/v1/create-queue", {"key": key(), "words": ["mine", "--cpu=1"]})
        assert made.status == 200 and fixture.directory.made[0][0] is None
        # A session that ends, also by revocation, takes no job with it.
        session = (await page.ask("GET", "/v1/session")).json["session"]
        revoked = await page.ask("POST", "/v1/tokens/revoke", {"key": key(), "id": session})
        assert revoked.status == 200 and revoked.headers.get("connection") == "close"
        assert (await page.ask("GET", "/v1/session")).status == 401

    play(test)


def test_a_submit_page_may_run_no_more_than_a_submit_token() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = await a_page(fixture, "submit")
        body = {"key": key(), "words": ["--queue", "default", "true"], "cwd": "/usr"}
        refused = await page.ask("POST", "/v1/enqueue", body)
        assert refused.headers["grass-exit"] == "5" and b"takes no jobs from other machines" in refused.body

    play(test)


def test_a_job_of_a_page_elsewhere_comes_from_another_machine() -> None:
    async def test(fixture: BrokerFixture) -> None:
        page = Browser(fixture, tls=True)
        await page.log_in((await a_link(fixture, "admin"))["code"])
        about = (await page.ask("GET", "/v1/session")).json
        assert about["cwd"] is None
        await enqueue(page.ask, "true", cwd="/usr")
        job = await stored(fixture, 1)
        assert job.spec.by == job.token == about["session"]
        assert job.spec.constraints.remote is not None and job.spec.cwd == b""
        await enqueue(partial(fixture.ask, local=True), "true", cwd="/")
        edit = {"key": key(), "selectors": ["2"], "set": {"name": "new"}}
        assert (await page.ask("POST", "/v1/jobs/edit", edit)).status in (404, 409)

    play(test)
