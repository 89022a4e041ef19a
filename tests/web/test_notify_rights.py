"""Who may be told by whose jobs: commands only by the owner's, and by a token's only what the owner allows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.web.broker_fixture import Answer, BrokerFixture, key, play

from grassq.web.submit.notify_targets import hosts_of


async def submit(fixture: BrokerFixture, token: str | None, *notify: Any) -> Answer:
    body = {"jobs": [{"command": ["true"], "notify": list(notify)}], "key": key()}
    return await fixture.ask("POST", "/v1/submit", body, token=token, local=token is None)


@pytest.mark.parametrize(
    "to", ["touch /tmp/x", "desktop", "https://ntfy.sh/x", "http://169.254.169.254/", "json://box"]
)
def test_a_job_of_a_token_tells_nobody_unless_the_owner_allows_it(to: str) -> None:
    async def test(fixture: BrokerFixture) -> None:
        for token in (await fixture.token("submit", bare=True), await fixture.token("admin", bare=True)):
            answer = await submit(fixture, token, to)
            assert answer.status == 409
            assert "a job from another machine may use no --notify" in answer.words and "token_notify" in answer.words
            words = ["--notify", to, "--", "true"]
            typed = await fixture.ask("POST", "/v1/enqueue", {"words": words, "key": key()}, token=token)
            assert b"the owner of the broker sets token_notify" in typed.body

    play(test)


def test_a_job_of_a_token_tells_the_hosts_that_the_owner_allows_over_https_only() -> None:
    async def test(fixture: BrokerFixture) -> None:
        fixture.api._submissions._notify_hosts = hosts_of("ntfy.sh, Hooks.Example")
        token = await fixture.token("submit", bare=True)
        assert (await submit(fixture, token, "https://ntfy.sh/x", "https://hooks.example:8443/y")).status == 200
        for to in ("http://ntfy.sh/x", "https://ntfy.sh.evil.example/x", "https://ntfy.sh@evil.example/", "touch x"):
            assert "https URLs of hooks.example, ntfy.sh only" in (await submit(fixture, token, to)).words

    play(test)


@pytest.mark.parametrize("route", ["GET /v1/notify", "POST /v1/notify/test"])
@pytest.mark.parametrize("scope", ["read", "submit", "admin", "worker"])
def test_only_the_owner_on_this_machine_sees_and_tests_targets(route: str, scope: Any) -> None:
    async def test(fixture: BrokerFixture) -> None:
        method, path = route.split()
        token = await fixture.token(scope)
        body = {"key": key(), "to": "touch /tmp/x"} if method == "POST" else None
        assert (await fixture.ask(method, path, body, token=token)).status == 403

    play(test)


def test_targets_of_the_owner_are_checked_and_shown_without_secrets() -> None:
    async def test(fixture: BrokerFixture) -> None:
        good = await submit(fixture, None, "https://hook.example/s3cr3t", "tee s3cr3t.json", "json://s3cr3t")
        assert good.status == 200, good.body
        shown = await fixture.ask("GET", "/v1/show?selector=1", local=True)
        assert shown.json["jobs"][0]["notify"] == ["https://hook.example/...", "tee ...", "json://..."]
        assert b"s3cr3t" not in shown.body
        assert "is not a program" in (await submit(fixture, None, "slack")).words
        assert "8 times is the most" in (await submit(fixture, None, *(f"https://h{n}.x/" for n in range(9)))).words
        assert (await submit(fixture, None, 7)).status == 400

    play(test)


def test_no_worker_is_told_whom_a_job_tells() -> None:
    async def test(fixture: BrokerFixture) -> None:
        sent: list[Any] = []
        fixture.engine.connect("w", sent.append)
        assert (await submit(fixture, None, "https://hook.example/s3cr3t")).status == 200
        await fixture.engine.read(lambda batch: None)
        assert sent and "s3cr3t" not in repr(sent)

    play(test)
