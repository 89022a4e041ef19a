"""GET /v1/jobs/ID and /v1/jobs/ID/submission: one answer for a page, and the same job again, changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.web.broker_fixture import key
from tests.web.subscribed import QUEUE, Rig, with_rig
from tests.web.test_job_window import change, submit
from tests.web.test_sweep_routes import end

from grassq.core.job_options import SPEC_FIELDS
from grassq.core.planner.workers import in_process

SECRET = "s3cret"


async def got(rig: Rig, path: str, token: str | None = None) -> dict[str, Any]:
    answer = await rig.fixture.ask("GET", path, token=token, local=token is None)
    assert answer.status == 200, answer.words
    found: dict[str, Any] = answer.json
    return found


def test_a_page_has_all_of_a_job_and_hides_variables_from_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        made = {"queue": QUEUE, "hold": False, "env": [["KEY", SECRET]], "name": "one", "parameters": {"lr": "1"}}
        [job] = await submit(rig.fixture, made)
        await end(rig, job, '{"loss":1}')
        page = await got(rig, f"/v1/jobs/{job}")
        assert page["job"]["result"] == {"loss": 1} and page["job"]["id"] == page["why"]["id"] == job
        [attempt] = page["attempts"]
        assert (attempt["number"], attempt["worker"], attempt["pid"], attempt["exit_code"]) == (1, "w", 100 + job, 0)
        assert attempt["allocation"] and attempt["started"] and attempt["ended"] and attempt["outcome"] == "exited"
        assert page["story"][0]["kind"] == "submitted"
        assert page["env"] == {"KEY": SECRET} and page["by"] == "owner" and page["editable"] is None
        reader = await rig.fixture.token("read")
        seen = await got(rig, f"/v1/jobs/{job}", reader)
        assert seen["env"] == {"KEY": None}
        told = await got(rig, f"/v1/jobs/{job}/submission", reader)
        assert SECRET not in str(told) and told["left_out"] == ["env"]
        [held] = await submit(rig.fixture, {})
        assert (await got(rig, f"/v1/jobs/{held}"))["editable"]["values"]["command"] == ["true"]
        assert (await got(rig, f"/v1/jobs/{held}", reader))["editable"] is None
        for path in ("/v1/jobs/99", "/v1/jobs/99/submission"):
            assert (await rig.fixture.ask("GET", path, local=True)).status == 404

    with_rig(test, monkeypatch)


def test_what_a_job_was_submitted_with_can_be_sent_and_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "queue": QUEUE, "command": ["true"], "tags": {"team": "a", "run": "1"}, "tries": 3, "retry_on": ["3", "oom"],
        "retry_delay_s": [1.0, 90.0], "time_limit_s": 100.0, "warn_s": 5.0, "warn_signal": "USR2", "idle_limit_s": 50.0,
    }  # fmt: skip

    async def test(rig: Rig) -> None:
        [job] = await submit(rig.fixture, made)
        told = await got(rig, f"/v1/jobs/{job}/submission")
        assert told["body"].items() >= made.items()
        for words in ("--tag=run=1", "--tag=team=a", "--retry-on=3,oom", "--retry-delay=1s..90s", "--warn=5s:USR2"):
            assert words in told["command_line"].split(), told["command_line"]
        again = {**told["body"], "hold": True}
        answer = await rig.fixture.ask("POST", "/v1/submit", {"jobs": [again], "key": key()}, local=True)
        assert answer.status == 200, answer.words
        specs = await rig.fixture.engine.read(lambda batch: [job.spec for job in batch.fetch([1, 2]).values()])
        first, second = ([getattr(spec, name) for name in SPEC_FIELDS] for spec in specs)
        assert first == second

    with_rig(test, monkeypatch)


def test_a_job_is_run_again_with_changes_in_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        made = {"queue": QUEUE, "env": [["KEY", SECRET]], "name": "one", "priority": 7, "command": ["true", "a b"]}
        [job] = await submit(rig.fixture, made)
        before = await got(rig, f"/v1/jobs/{job}/submission")
        assert before["rerun_of"] is None, "it has not ended"
        wanted = (
            f"grass enqueue --name=one --priority=7 --env=KEY={SECRET} --cwd=/ --queue={QUEUE} --cpu=1 -- true 'a b'"
        )
        assert sorted(before["command_line"].split()) == sorted(wanted.replace("--cwd=/ ", "").split())
        await change(rig.fixture, "kill", str(job))
        again = await got(rig, f"/v1/jobs/{job}/submission")
        body = {"jobs": [{**again["body"], "priority": 8, "hold": True}], "rerun_of": again["rerun_of"], "key": key()}
        answer = await rig.fixture.ask("POST", "/v1/submit", body, local=True)
        assert answer.status == 200, answer.words
        [new] = answer.json["ids"]
        page = await got(rig, f"/v1/jobs/{new}")
        assert page["job"]["rerun_of"] == job and page["job"]["priority"] == 8 and page["env"] == {"KEY": SECRET}
        assert page["runs"] == [{"id": job, "state": "cancelled"}, {"id": new, "state": "held"}]
        digests = await rig.fixture.engine.read(
            lambda batch: {batch.fetch([id_])[id_].spec.env_digest for id_ in (job, new)}
        )
        assert len(digests) == 1, "the environment of the submitter too"
        for wrong in (new, 999):
            body |= {"rerun_of": wrong, "key": key()}
            assert (await rig.fixture.ask("POST", "/v1/submit", body, local=True)).status in (404, 409)
        token = await rig.fixture.token("submit", bare=True)
        body |= {"rerun_of": job, "key": key()}
        refused = await rig.fixture.ask("POST", "/v1/submit", body, token=token)
        assert refused.status == 409 and "another token" in refused.words

    with_rig(test, monkeypatch)


def test_another_run_with_changes_has_an_output_file_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def test(rig: Rig) -> None:
        await rig.fixture.engine.read(lambda batch: setattr(batch.board, "roles", in_process("w")))
        [job] = await submit(rig.fixture, {"output": f"{tmp_path}/a.out"})
        before = await got(rig, f"/v1/jobs/{job}/submission")
        assert before["body"]["output"] == f"{tmp_path}/a.out" and "a.out" in before["command_line"]
        await change(rig.fixture, "kill", str(job))
        (tmp_path / "a.out").write_text("the output of the first run")
        again = await got(rig, f"/v1/jobs/{job}/submission")
        own = f"{tmp_path}/a.{{job.id}}.out"
        assert again["body"]["output"] == own and own in again["command_line"]
        body = {"jobs": [{**again["body"], "hold": True}], "rerun_of": again["rerun_of"], "key": key()}
        answer = await rig.fixture.ask("POST", "/v1/submit", body, local=True)
        assert answer.status == 200, answer.words

    with_rig(test, monkeypatch)


def test_a_log_is_downloaded_whole_or_in_ranges_under_a_safe_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        [job] = await submit(rig.fixture, {"queue": QUEUE, "hold": False, "name": "größe.x"})
        await end(rig, job, None)
        log = rig.logs[job] = bytes(range(256)) * 1000

        async def load(**headers: str) -> tuple[int, dict[str, str], bytes]:
            path = f"/v1/jobs/{job}/log?download=1"
            reader, writer = await asyncio.open_unix_connection(str(rig.fixture.home / "grass.sock"))
            rig.fixture.writers.append(writer)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"GET {path} HTTP/1.1\r\nHost: grass\r\nConnection: close\r\n{lines}\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            return int(head.split()[1]), fields, body

        status, fields, body = await load()
        assert status == 200 and fields["Content-Type"] == "application/octet-stream" and len(body) > len(log)
        assert fields["Content-Disposition"] == f'attachment; filename="job-{job}-gr_e.x.log"'
        ranges = {"5-9": (5, 9), "255990-": (255990, 255999), "-7": (255993, 255999), "0-99999999": (0, 255999)}
        for asked, (first, last) in ranges.items():
            status, fields, body = await load(Range=f"bytes={asked}")
            assert (status, body) == (206, log[first : last + 1])
            assert fields["Content-Range"] == f"bytes {first}-{last}/{len(log)}"
        status, fields, _ = await load(Range="bytes=256000-")
        assert status == 416 and fields["Content-Range"] == "bytes */256000"
        for odd in ("bytes=1-2,5-6", "lines=1-2", "bytes=-"):
            assert (await load(Range=odd))[0] == 200

    with_rig(test, monkeypatch)
