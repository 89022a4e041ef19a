"""A home that an earlier release wrote opens: its store, its run dirs, its logs and what its jobs were asked to do.

`tests/fixtures/home.tar.gz` is a home of the release named in `home.json`, made with that release's own commands: about
300 jobs in every state, 17 queues, run dirs of every ending. Its daemon, shims and commands were then killed at once,
and the stored boot id was replaced by an invented one, so a daemon that opens it finds that "the machine restarted".
`home.json` says what the same release made of the home. The jobs named `c-*`, `x-*` and `r-*` are the only ones that
opening changes: they ran, had ended unseen, or waited for a retry. Texts that the code words anew are not compared.
"""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

from tests.e2e.world import Grass, Job, eventually

from grassq.net.retry import exchange

FIXTURES = Path(__file__).parent.parent / "fixtures"
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "home.json").read_text())
FIRST, LAST = EXPECTED["ids"]["bulk-first"], EXPECTED["ids"]["bulk-last"]
#: Of the 200 bulk jobs `home.json` lists the first two and the last two.
BULK = range(FIRST + 2, LAST - 1)
#: A document of `home.json` has no key whose value is null or false; `reason` is worded anew.
JOB_KEYS = {key for job in EXPECTED["opened"]["jobs"] for key in job} - {"error"}


def test_a_home_of_an_earlier_release_opens(grass: Grass) -> None:
    with tarfile.open(FIXTURES / "home.tar.gz") as tar:
        tar.extractall(grass.home.parent, filter="data")
    grass.home.chmod(0o700)
    opened = EXPECTED["opened"]
    until_alike(grass, {job["id"]: job for job in opened["jobs"]})
    document = grass.json("show", "all")
    assert {key: document[key] for key in ("totals", "paused", "restored")} == {
        key: opened[key] for key in ("totals", "paused", "restored")
    }
    for kind in ("queues", "workers"):
        assert [pick(found, known) for found, known in zip(document[kind], opened[kind], strict=True)] == opened[kind]
    bulk = {job["id"]: (job["state"], job["command"]) for job in document["jobs"] if job["id"] in BULK}
    assert bulk == {id_: ("queued", bulk_command(id_ - FIRST + 1)) for id_ in BULK}
    check_logs(grass, EXPECTED["logs"])
    with grass.client() as client:
        assert [stray["path"] for stray in client.info()["strays"]] == EXPECTED["strays"]
        asked = client.why([",".join(EXPECTED["stories"])])["jobs"]
    assert {str(job["id"]): job["story"] for job in asked} == EXPECTED["stories"]
    check_replays(grass)
    check_resumed(grass)


def check_replays(grass: Grass) -> None:
    """Claim that a request sent again with its key gets the stored answer, and does nothing."""
    before = grass.jobs()
    for replay in EXPECTED["replays"]:
        answer = json.loads(exchange(str(grass.home), "POST", replay["path"], replay["body"].encode()).body)
        if replay["answer"] is None:
            assert [job["id"] for job in answer["jobs"]] == replay["ids"]
        else:
            assert answer == replay["answer"]
    assert grass.jobs() == before


def check_resumed(grass: Grass) -> None:
    """Claim that the jobs that waited run as they were asked to: words, directories, environments, umasks."""
    grass.ok("resume")
    grass.ok("release", f"{EXPECTED['ids']['h-new']},{EXPECTED['ids']['h-later']}")
    resumed = EXPECTED["resumed"]
    changed = {job["id"]: job | resumed["jobs"].get(str(job["id"]), {}) for job in EXPECTED["opened"]["jobs"]}
    until_alike(grass, changed)
    eventually(lambda: grass.json("show")["totals"] == resumed["totals"], "every other job succeeds")
    check_logs(grass, resumed["logs"])
    with grass.client() as client:
        for number in (9, 10, 100, 101):
            assert b"".join(client.log(FIRST + number - 1)) == bulk_output(number)
    assert grass.enqueue("--", "true") == EXPECTED["next_id"]


def until_alike(grass: Grass, expected: dict[int, Job]) -> None:
    """Wait until every listed job is as expected."""

    def differing() -> list[tuple[Job, Job]]:
        jobs = {job["id"]: shortened(job) for job in grass.jobs()}
        assert jobs.keys() == expected.keys() | set(BULK)
        return [(pick(jobs[id_], job), job) for id_, job in expected.items() if pick(jobs[id_], job) != job]

    try:
        eventually(lambda: not differing(), "jobs are as expected")
    except AssertionError:
        assert [found for found, _ in differing()] == [job for _, job in differing()]
        raise


def shortened(job: Job) -> Job:
    """Return what `home.json` may say of a job."""
    return {
        key: job[key] for key in job if key in JOB_KEYS | {"error"} and job[key] is not None and job[key] is not False
    }


def pick(found: Job, known: Job) -> Job:
    """Return of a document the keys that the expected one has; and of a job every key that it should not have."""
    return {key: value for key, value in found.items() if key in known or ("attempt" in known and key in JOB_KEYS)}


def bulk_command(number: int) -> list[str]:
    """Return the command of a bulk job: every tenth is a line for a shell."""
    return [f"echo line {number} | tr a-z A-Z"] if number % 10 == 0 else ["/bin/echo", "line", str(number)]


def bulk_output(number: int) -> bytes:
    """Return what a bulk job writes."""
    return b"LINE %d\n" % number if number % 10 == 0 else b"line %d\n" % number


def check_logs(grass: Grass, logs: list[dict[str, Any]]) -> None:
    """Claim that every listed stream of an attempt is what it was."""
    with grass.client() as client:
        for log in logs:
            text = log["text"]
            written = text.encode() if isinstance(text, str) else base64.b64decode(text["b64"])
            assert b"".join(client.log(log["job"], stream=log["stream"], attempt=log["attempt"])) == written, log
