"""Time limits over the API: what programs send, what is refused, and what documents say."""

from __future__ import annotations

from typing import Any

from tests.web.broker_fixture import BrokerFixture, key, play
from tests.web.test_edit_route import edit, values
from tests.web.test_token_jobs import submit

LIMITS: dict[str, Any] = {"time_limit_s": 7200, "warn_s": 60.0, "warn_signal": "sigterm", "idle_limit_s": 1800}


def test_a_program_gives_limits_in_seconds_and_reads_them_in_the_job() -> None:
    async def test(fixture: BrokerFixture) -> None:
        [id_] = (await submit(fixture, None, hold=True, **LIMITS)).json["ids"]
        [job] = (await fixture.ask("GET", f"/v1/jobs?selector={id_}", local=True)).json["jobs"]
        assert {name: job[name] for name in LIMITS} == {**LIMITS, "warn_signal": "TERM"}
        assert job["effective_time_limit_s"] is None, "no attempt was placed"
        for given, words in (
            ({"time_limit_s": 0}, "time_limit_s must lie between 1 and"),
            ({"time_limit_s": 1e300}, "time_limit_s must lie between 1 and"),
            ({"idle_limit_s": -5}, "idle_limit_s must lie between 1 and"),
            ({"warn_s": 60}, "--warn needs a time limit"),
            ({"time_limit_s": 60, "warn_s": 60}, "--warn 1m must be shorter than the time limit of 1m"),
            ({"time_limit_s": 60, "warn_s": -1}, "warn_s needs a time before the limit"),
            ({"time_limit_s": 60, "warn_s": 5, "warn_signal": "FOO"}, "warn_s needs a signal"),
            ({"time_limit_s": 60, "warn_signal": "TERM"}, "warn_signal needs warn_s"),
            ({"warn": "60s"}, "unknown field `warn`"),
            ({"time_limit_s": "2h"}, "Expected `float | null`"),
        ):
            answer = await submit(fixture, None, **given)
            assert answer.status == 400 and words in answer.words, (given, answer.words)

    play(test)


def test_a_queue_at_the_broker_gives_its_limit_and_keeps_its_maximum() -> None:
    async def test(fixture: BrokerFixture) -> None:
        typed = {"words": ["--at-broker", "lim", "--time-limit", "2h", "--max-time-limit", "1d"], "key": key()}
        assert (await fixture.ask("POST", "/v1/create-queue", typed, local=True)).status == 200
        queues = (await fixture.ask("GET", "/v1/show", local=True)).json["queues"]
        [queue] = [each for each in queues if each["name"] == "lim"]
        assert (queue["time_limit_s"], queue["max_time_limit_s"]) == (7200.0, 86400.0)
        refused = await submit(fixture, None, queue="lim", time_limit_s=90000)
        said = "queue 'lim' allows a time limit of at most 1d, and the job has 1d1h"
        assert refused.status == 409 and said in refused.words
        [id_] = (await submit(fixture, None, queue="lim", warn_s=60)).json["ids"]
        [job] = (await fixture.ask("GET", f"/v1/jobs?selector={id_}", local=True)).json["jobs"]
        assert (job["time_limit_s"], job["effective_time_limit_s"], job["warn_signal"]) == (None, 7200.0, "USR1")
        [why] = (await fixture.ask("GET", f"/v1/why?selector={id_}", local=True)).json["jobs"]
        assert why["text"].startswith(f"job {id_} (cpu 1, queue lim, time limit 2h) is ")

    play(test)


def test_limits_are_edited_like_any_option_and_checked_like_new_ones() -> None:
    async def test(fixture: BrokerFixture) -> None:
        [id_] = (await submit(fixture, None, hold=True, **LIMITS)).json["ids"]
        one = str(id_)
        answer = await edit(fixture, one, set={"time-limit": "3h", "warn": "2m:USR2", "idle_limit_s": "90s"})
        assert answer.status == 200, answer.words
        now = await values(fixture, one)
        assert (now["time-limit"], now["warn"], now["idle-limit"]) == (10800, "2m:USR2", 90)
        for given, words in (
            ({"time-limit": "1m"}, "--warn 2m must be shorter"),
            ({"time-limit": None}, "--warn needs a time limit"),
            ({"warn": "1m:FOO"}, "--warn needs a signal"),
        ):
            refused = await edit(fixture, one, set=given)
            assert refused.status == 400 and words in refused.words, given
        assert (await edit(fixture, one, set={"time-limit": None, "warn": None, "idle-limit": None})).status == 200
        now = await values(fixture, one)
        assert (now["time-limit"], now["warn"], now["idle-limit"]) == (None, None, None)

    play(test)


def test_a_start_time_means_what_its_sender_says_it_means() -> None:
    async def test(fixture: BrokerFixture) -> None:
        token = await fixture.token("submit", bare=True)

        async def typed(word: str, by: str | None, **more: str) -> tuple[str, str]:
            body = {"words": ["--at", word, "--", "true"], "key": key(), "env": [["PATH", "/bin"]], **more}
            answer = await fixture.ask("POST", "/v1/enqueue", body, token=by, local=by is None)
            length = int(answer.headers["grass-stdout"])
            return answer.body[:length].decode(), answer.body[length:].decode()

        for by in (None, token):
            said = await typed("18:00", by, at="2131-02-03T18:00:00+05:30")
            assert said[0].startswith("job "), said
            assert "starts at 2131-02-03 18:00:00+05:30 or later" in said[1]
            [job] = (await fixture.ask("GET", "/v1/show?selector=@", local=True)).json["jobs"]
            assert job["not_before"] == "2131-02-03T12:30:00.000Z"
            said = await typed("2131-02-03T18:00+01:00", by, at="2131-02-03T22:30+05:30")
            assert "starts at 2131-02-03 18:00:00+01:00 or later" in said[1], "as it was typed"
            for at in ("18:00", "2131-02-03T18:00", "soon", "2131-02-31T18:00+01:00", "9" * 9000):
                out, err = await typed("18:00", by, at=at)
                assert not out and err.startswith("grass: ") and err.count("\n") == 1, (at, err)
        assert "write it with its distance to UTC" in (await typed("18:00", token))[1]
        assert "starts at " in (await typed("18:00", None))[1], "without its meaning it is one of this machine"

    play(test)
