"""Arrays, lists and sweeps through the API: what is sent, what is refused, and what a token may not do."""

from __future__ import annotations

import json
from typing import Any

from tests.web.broker_fixture import Answer, BrokerFixture, key, play
from tests.web.test_submit_many import ENV, out, stored, with_queues


async def many(fixture: BrokerFixture, token: str | None = None, route: str = "/v1/submit-many", **body: Any) -> Answer:
    body = {"job": {}, "commands": [["/bin/echo", "{index}"]], "key": key(), "env": ENV, "cwd": "/", **body}
    return await fixture.ask("POST", route, body, token, local=token is None)


async def apply(fixture: BrokerFixture, token: str | None = None, queue: str = "", **sweep: Any) -> Answer:
    lines = "/bin/true 1\n/bin/true 2"
    words = [*([queue] if queue else []), "--stdin", "--name", "fit", "--json", "--hold"]
    body: dict[str, Any] = {
        "words": words,
        "lines": lines,
        "parameters": {"x": ["1", "2"]},
        "verb": "sweep",
        "key": key(),
    }
    body |= {"env": ENV, "cwd": "/", "sweep": {"apply": True, **sweep}}
    return await fixture.ask("POST", "/v1/enqueue", body, token, local=token is None)


def test_an_array_and_a_list_are_one_command_in_a_body() -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await many(
            fixture, array="0-4:2%2", job={"name": "a-{index}", "output": "/tmp/never-{index}/{job.id}"}
        )
        assert (answer.json["first"], answer.json["count"]) == (1, 3)
        jobs = await stored(fixture)
        assert [(job.name, job.spec.array_index, job.spec.array_of) for job in jobs] == [
            (f"a-{index}", index, (3, 0, 4)) for index in (0, 2, 4)
        ]
        assert jobs[1].spec.output == b"/tmp/never-2/{job.id}"
        assert {job.spec.constraints.groups for job in jobs} == {("sweep:1",)}
        answer = await many(fixture, each={"index": ["a b", "{cpu}"]}, sweep={"max_fails": 2})
        assert answer.json["count"] == 2
        listed = (await stored(fixture))[3:]
        assert [job.spec.command[1] for job in listed] == [b"a b", b"{{cpu}}"], "braces of a value stay as they are"
        assert [dict(job.spec.parameters) for job in listed] == [{"index": "a b"}, {"index": "{cpu}"}]
        assert {job.spec.sweep for job in listed} == {4}

    play(test)


def test_lists_and_grids_are_expanded_by_the_daemon_and_tried_without_being_queued() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_queues(fixture)
        grid = {"parameters": {"lr": ["log:1e-3..1e-1:3"], "bs": ["32..128*2", "x y"]}, "exclude": ["lr=0.1 bs=32"]}
        body: dict[str, Any] = {
            "commands": ["/bin/echo {lr} {bs}"],
            "grid": grid,
            "sweep": {"at_once": 2, "max_fails": 1},
        }
        answer = await many(fixture, route="/v1/dry-run", **body)
        assert (answer.json["count"], answer.json["commands"][0]) == (11, ["/bin/echo", "0.001", "32"]), answer.body
        assert answer.json["reason"] or answer.json["workers"]
        assert not await stored(fixture), "a dry run stores nothing"
        assert (await many(fixture, **body)).json["count"] == 11
        jobs = await stored(fixture)
        assert dict(jobs[3].spec.parameters) == {"lr": "0.001", "bs": "x y"}
        assert {(job.spec.sweep, job.spec.constraints.groups) for job in jobs} == {(1, ("sweep:1",))}
        rows = {"text": 'a,b\n"x y",{cpu}\n', "file": "rows.csv"}
        assert (await many(fixture, commands=[["/bin/echo", "{a}", "{b}"]], rows=rows)).json["count"] == 1
        assert (await stored(fixture))[-1].spec.command == (b"/bin/echo", b"x y", b"{{cpu}}")
        # A row with each combination; and a key that an unfinished job has.
        both: dict[str, Any] = {"commands": ["/bin/echo {line} {n}"], "rows": {"text": "p\nq", "kind": "txt"}}
        answer = await many(fixture, route="/v1/dry-run", **both, grid={"parameters": {"n": ["0..1"]}})
        assert [each[1:] for each in answer.json["commands"]] == [["p", "0"], ["p", "1"], ["q", "0"], ["q", "1"]]
        one: dict[str, Any] = {"commands": [["/bin/true"]], "job": {"unique": "k", "hold": True}}
        first = (await many(fixture, **one)).json["first"]
        assert (await many(fixture, route="/v1/dry-run", **one)).json["existing"] == first
        ann = await fixture.token("submit", bare=True)
        huge = {"parameters": {name: ["1..300"] for name in "abc"}}
        answer = await many(fixture, ann, commands=["/bin/echo {a}{b}{c}"], grid=huge, job={"queue": "default"})
        assert answer.status == 400 and "more than 20,000 combinations" in answer.json["error"]["message"]

    play(test)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"array": "0-1000000"}, "more than 100,000 jobs"),
    ({"array": ""}, "is not an index"),
    ({"array": "0-1", "commands": [["/bin/true"], ["/bin/true"]]}, "goes with one command"),
    ({"array": "0-1", "each": {"a": ["1"]}}, "goes with one command"),
    ({"array": "0-1", "job": {"name": "x y"}}, "cannot be a name"),
    ({"array": "0-1", "sweep": {"at_once": 0}}, "at_once"),
    ({"array": "0-1", "sweep": {"apply": True}}, "for POST /v1/enqueue"),
    ({"array": "0-1", "sweep": {"into": 1}}, "unknown field"),
    ({"array": "0-1", "job": {"sweep": 1}}, "unknown field"),
    ({"each": {"index": ["1"], "b": ["1", "2"]}}, "columns of the same length"),
    ({"each": {"index": []}}, "columns of the same length"),
    ({"each": {"index": ["a\0b"]}}, "NUL byte"),
    ({"each": {"other": ["1"]}}, "there is no column 'index'"),
    ({"each": {"index": ["x" * 2000]}}, "1,000 characters at most"),
    ({"each": {str(n): ["1"] for n in range(70)} | {"index": ["1"]}}, "64 parameters at most"),
    ({"job": {"name": "x{y}"}}, "cannot be a job name"),
    ({"parameters": {"x": ["1", "2"]}}, "has 2 values for 1 jobs"),
    ({"rows": {"text": "a,b\n1"}}, "the list, line 2: it has 1 values"),
    ({"rows": {"text": "\ud800"}}, "invalid request"),
    ({"rows": {"text": "a\n1", "kind": "xls"}}, "invalid request"),
    ({"rows": {"text": "index\n1"}, "array": "0-1"}, "go with one command"),
    ({"grid": {"parameters": {"x": ["0.."]}}}, "which is a line"),
    ({"commands": ["echo {x}"], "grid": {"parameters": {"x": ["0.."]}}}, "it has no end"),
    ({"commands": ["echo {x}"], "grid": {"parameters": {"x": []}}}, "has no values"),
    ({"commands": ["echo {y}"], "grid": {"parameters": {"x": ["1"]}}}, "{y} has no values"),
    ({"commands": ["echo {x}"], "grid": {"parameters": {"x": ["1"]}, "exclude": ["x=1"]}}, "leaves out every point"),
    ({"commands": ["e {x}{y}"], "grid": {"parameters": {"x": ["1..90000"], "y": ["1..90000"]}}}, "combinations"),
    ({"array": "0-1", "job": {"unique": "k"}}, "--unique is for one job"),
]


def test_what_is_wrong_stores_nothing() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for body, said in WRONG:
            answer = await many(fixture, **body)
            assert answer.status == 400 and said in answer.json["error"]["message"], (body, answer.body)
            tried = await many(fixture, route="/v1/dry-run", **body)
            assert tried.json == answer.json, "a dry run says the same"
        assert not await stored(fixture)

    play(test)


def test_a_token_has_sweeps_of_its_own_and_no_large_arrays() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_queues(fixture)
        ann, bob = await fixture.token("submit", bare=True), await fixture.token("submit", bare=True)
        first = json.loads(out(await apply(fixture, ann, "default"))[0])
        assert (first["sweep"], first["count"]) == (1, 2)
        assert json.loads(out(await apply(fixture, ann, "default"))[0])["counts"]["kept"] == 2
        other = json.loads(out(await apply(fixture, bob, "default", prune=True))[0])
        assert (other["sweep"], other["count"], other["ended"]) == (3, 2, []), "a sweep of another is left alone"
        assert json.loads(out(await apply(fixture))[0])["sweep"] == 5
        assert {job.state.value for job in await stored(fixture)} == {"held"}
        answer = await many(fixture, ann, array="0-2000", job={"queue": "default"})
        assert answer.status == 400 and "1 to 2,000 jobs" in answer.json["error"]["message"]
        killed = await fixture.ask("POST", "/v1/jobs/kill", {"selectors": ["sweep:1"], "key": key()}, bob)
        assert killed.status == 404, "nor can it end the sweep of another"
        assert (await fixture.ask("POST", "/v1/jobs/kill", {"selectors": ["sweep:1"], "key": key()}, ann)).json[
            "ids"
        ] == [1, 2]

    play(test)


def test_the_same_request_again_runs_nothing_again() -> None:
    async def test(fixture: BrokerFixture) -> None:
        body = {"job": {}, "commands": [["/bin/echo"]], "array": "0-2", "key": key(), "env": ENV, "cwd": "/"}
        answers = [(await fixture.ask("POST", "/v1/submit-many", body, local=True)).json for _ in range(2)]
        assert answers[0]["first"] == answers[1]["first"] == 1
        assert len(await stored(fixture)) == 3

    play(test)


def test_an_edited_job_stays_in_its_sweep_and_its_array() -> None:
    async def test(fixture: BrokerFixture) -> None:
        await many(fixture, array="3-5%2", job={"hold": True})
        body = {"selectors": ["2"], "set": {"command": ["/bin/true"], "cpu": 2}, "cwd": "/", "key": key()}
        answer = await fixture.ask("POST", "/v1/jobs/edit", body, local=True)
        assert answer.status == 200, answer.body
        job = (await stored(fixture))[1]
        assert (job.spec.command, job.spec.request) == ((b"/bin/true",), (("cpu", 2_000_000),))
        assert (job.spec.sweep, job.spec.array_index, job.spec.constraints.groups) == (1, 4, ("sweep:1",))

    play(test)


def test_a_sweep_without_points_is_not_applied() -> None:
    async def test(fixture: BrokerFixture) -> None:
        for more in ({"lines": ""}, {"lines": "/bin/true"}):
            body = {"words": ["--stdin", "--name", "fit"], "verb": "sweep", "key": key(), "env": ENV, "cwd": "/"}
            answer = await fixture.ask("POST", "/v1/enqueue", {**body, "sweep": {"apply": True}, **more}, local=True)
            assert out(answer)[1].startswith("grass: a sweep that is applied has a point at least")
        assert not await stored(fixture)

    play(test)
