"""Batches by the API: checked without a trace, submitted whole or not at all; output files of submissions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.web.broker_fixture import Answer, BrokerFixture, key, play
from tests.web.test_submit_many import ENV, stored, with_queues

from grassq.core.model import Offer
from grassq.core.planner.workers import in_process


async def ask(fixture: BrokerFixture, path: str, cwd: Path, token: str | None = None, **body: Any) -> Answer:
    document = {"key": key(), "env": ENV, "cwd": str(cwd), **body}
    return await fixture.ask("POST", f"/v1/{path}", document, token, local=token is None)


async def with_own_worker(fixture: BrokerFixture, *offers: Offer) -> None:
    await fixture.engine.read(lambda batch: setattr(batch.board, "roles", in_process("w")))
    await with_queues(fixture, *offers)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


TEXT = "one;;a/1.out;;/bin/ls -l;;;\ntwo words;;a/2.out;;echo $HOME\n| wc;;;"


def test_a_check_tells_what_would_run_and_leaves_no_trace(tmp_path: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_own_worker(fixture)
        answer = (await ask(fixture, "check", tmp_path, batch=TEXT, job={"priority": 40})).json
        assert answer["problems"] == [] and answer["count"] == 2
        one, two = answer["jobs"]
        assert one == {
            "line": 1, "name": "one", "queue": "default", "command": ["/bin/ls", "-l"], "shell": False,
            "cwd": str(tmp_path), "output": f"{tmp_path}/a/1.out", "request": {"cpu": 1},
        }  # fmt: skip
        assert (two["line"], two["name"], two["command"], two["shell"]) == (2, "two-words", ["echo $HOME | wc"], True)
        (tmp_path / "old").touch()
        bad = "x;;y;;;\na;;old;;true;;;\nb;;fresh;;/bin/true {vram};;;"
        answer = (await ask(fixture, "check", tmp_path, batch=bad)).json
        assert [(each["line"], each["why"].split()[0]) for each in answer["problems"]] == [(1, "'x;;y'"), (2, "the")]
        typed = (await ask(fixture, "check", tmp_path, words=["--cpu=2", "--", "/bin/ls"])).json
        assert typed["jobs"][0]["request"] == {"cpu": 2} and typed["jobs"][0]["line"] is None
        wrong = (await ask(fixture, "check", tmp_path, words=["--cpu=2", "--", "/no/program"])).json
        assert wrong["jobs"] == [] and "no program" in wrong["problems"][0]["why"]
        assert await stored(fixture) == [] and names(tmp_path) == ["old"]

    play(test)


def test_a_batch_is_stored_whole_or_not_at_all_and_once(tmp_path: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_own_worker(fixture)
        body: dict[str, Any] = {"text": TEXT, "key": key(), "job": {"hold": True}}
        answer = await ask(fixture, "submit-batch", tmp_path, **body)
        assert answer.json["ids"] == [1, 2], answer.body
        again = await ask(fixture, "submit-batch", tmp_path, **body)
        assert again.json["ids"] == [1, 2], "the same request is one submission, although the files exist now"
        assert [each.name for each in await stored(fixture)] == ["one", "two-words"]
        assert names(tmp_path / "a") == ["1.out", "2.out"]

        exists = await ask(fixture, "submit-batch", tmp_path, text="x;;new;;true;;;y;;a/1.out;;true;;;")
        assert exists.status == 409 and b"exists" in exists.body
        malformed = await ask(fixture, "submit-batch", tmp_path, text="x;;new;;true;;;\ny;;true;;;")
        assert malformed.status == 400 and b"line 2" in malformed.body and b"no job" in malformed.body
        common = await ask(fixture, "submit-batch", tmp_path, text=TEXT, job={"command": ["x"]})
        assert common.status == 400
        assert len(await stored(fixture)) == 2 and not (tmp_path / "new").exists()

    play(test)


def test_a_token_names_a_file_only_if_it_may_run_any_command(tmp_path: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_own_worker(fixture)
        bare, bound = await fixture.token("submit", bare=True), await fixture.token("submit")
        text = f"x;;{tmp_path}/x;;true;;;"
        assert (await ask(fixture, "submit-batch", tmp_path, await fixture.token("read"), text=text)).status == 403
        refused = await ask(fixture, "submit-batch", tmp_path, bound, text=text)
        assert refused.status == 409 and b"--output" in refused.body
        relative = await ask(fixture, "submit-batch", tmp_path, bare, text="x;;y;;true;;;")
        assert relative.status == 400 and b"absolute" in relative.body
        assert await stored(fixture) == [] and names(tmp_path) == []
        taken = await ask(fixture, "submit-batch", tmp_path, bare, text=text)
        assert taken.status == 200, "a token that may run any command may also name a file"
        [job] = await stored(fixture)
        assert job.spec.output == f"{tmp_path}/x".encode() and names(tmp_path) == ["x"]

    play(test)


def test_a_batch_and_an_edit_lead_no_file_out_of_the_box_of_a_queue(tmp_path: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_own_worker(fixture, Offer("own", {}, (b"/bin/echo",)), Offer("boxed", {}, wrap=b"/bin/nice"))
        bare = await fixture.token("submit", bare=True)
        for queue in ("own", "boxed"):
            text = f"x;;{tmp_path}/x;;true;;;"
            refused = await ask(fixture, "submit-batch", tmp_path, bare, text=text, job={"queue": queue})
            assert refused.status == 409 and b"takes no --output" in refused.body, refused.body
        assert await stored(fixture) == [] and names(tmp_path) == [], "the reserved files are gone too"
        job = {"command": ["true"], "output": f"{tmp_path}/x", "hold": True}
        assert (await ask(fixture, "submit", tmp_path, bare, jobs=[job])).status == 200
        for queue in ("own", "boxed"):
            moved = {"selectors": ["1"], "key": key(), "set": {"queue": queue}}
            refused = await fixture.ask("POST", "/v1/jobs/edit", moved, bare)
            assert refused.status == 409 and b"takes no --output" in refused.body, refused.body

    play(test)


def test_the_jobs_of_a_batch_are_in_the_project_of_their_submitter(tmp_path: Path) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_own_worker(fixture)
        env = [*ENV, ["GRASS_PROJECT", "paper"]]
        text = "x;;x;;true;;;"
        assert (await ask(fixture, "submit-batch", tmp_path, env=env, text=text, job={"hold": True})).status == 200
        assert [each.spec.project for each in await stored(fixture)] == ["paper"]
        bad = [*ENV, ["GRASS_PROJECT", "no name"]]
        assert (await ask(fixture, "submit-batch", tmp_path, env=bad, text="y;;y;;true;;;")).status == 400
        assert (await ask(fixture, "check", tmp_path, env=bad, batch="y;;y;;true;;;")).status == 400

    play(test)


@pytest.mark.parametrize("is_here", [False, True])
def test_a_check_looks_for_files_on_this_machine_only_if_the_jobs_run_here(tmp_path: Path, is_here: bool) -> None:
    async def test(fixture: BrokerFixture) -> None:
        (tmp_path / "x").touch()
        await (with_own_worker(fixture) if is_here else with_queues(fixture))
        answer = (await ask(fixture, "check", tmp_path, batch="x;;x;;true;;;")).json
        assert ["exists" in each["why"] for each in answer["problems"]] == [True] * is_here

    play(test)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_request_that_ends_early_leaves_only_the_files_of_stored_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    async def test(fixture: BrokerFixture) -> None:
        await with_own_worker(fixture)
        change, reached = fixture.engine.change, asyncio.Event()
        serving: list[asyncio.Task[Any]] = []

        async def stuck(handler: Any, **more: Any) -> Any:
            if is_stored:
                await change(handler, **more)
            serving.extend(filter(None, [asyncio.current_task()]))
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(fixture.engine, "change", stuck)
        asked = asyncio.create_task(ask(fixture, "submit-batch", tmp_path, text="x;;x;;true;;;", job={"hold": True}))
        await asyncio.wait_for(reached.wait(), 10)
        assert names(tmp_path) == ["x"]
        serving[0].cancel()
        await asyncio.wait(serving)
        asked.cancel()
        assert names(tmp_path) == (["x"] if is_stored else [])
        assert len(await stored(fixture)) == int(is_stored)

    play(test)
