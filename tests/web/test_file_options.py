"""Jobs with files in the API: what a submitter on another machine may not ask for, and where such jobs run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.web.broker_fixture import BrokerFixture, key, play

SENT = {"manifest": "0" * 64, "folder": "/tmp"}
OPTIONS: list[dict[str, Any]] = [
    {"send": [SENT]},
    {"fetch": ["x"]},
    {"env_from": "there"},
    {"env_from": "here"},
    {"python": "/x"},
    {"setup": "rm -rf /"},
]


def submit(fixture: BrokerFixture, job: dict[str, Any], **how: Any) -> Any:
    body = {"jobs": [{"command": ["true"], **job}], "key": key(), "cwd": "/tmp", "env": [["PATH", "/bin"]]}
    return fixture.ask("POST", "/v1/submit", body, **how)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)))
def test_a_job_from_another_machine_has_no_files_and_no_environment(options: dict[str, Any]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await submit(fixture, options, token=await fixture.token("submit", bare=True))
        assert answer.status == 400 and b"a job from another machine takes no --send" in answer.body
        shown = await fixture.ask("GET", "/v1/show?selector=all", local=True)
        assert shown.json["jobs"] == []

    play(test)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)))
def test_a_worker_that_takes_no_files_gets_no_job_with_files(options: dict[str, Any]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await submit(fixture, options, local=True)
        assert answer.status != 200 and b"cannot take files" in answer.body, answer.body

    play(test)


@pytest.mark.parametrize(
    "options",
    [
        {"send": [{**SENT, "manifest": "x"}]},
        {"send": [{**SENT, "dest": "/x"}]},
        {"send": [{**SENT, "folder": ""}]},
        {"send": [SENT] * 101},
        {"send": [SENT, SENT]},
        {"fetch": ["/x"]},
        {"fetch": [""]},
        {"fetch_to": "x"},
        {"env_from": "nowhere"},
        {"setup_files": ["x"]},
        {"setup": ""},
        {"python": "a\0b"},
    ],
)
def test_a_wrong_option_is_refused_in_one_line(options: dict[str, Any]) -> None:
    async def test(fixture: BrokerFixture) -> None:
        answer = await submit(fixture, options, local=True)
        assert answer.status == 400 and answer.body.count(b"\n") <= 1, answer.body

    play(test)
