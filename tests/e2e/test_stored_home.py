"""Homes that an earlier release wrote open: stores, run dirs, logs, tokens, and what jobs were asked to do.

Both fixtures are homes of the release named in their JSON file, made with that release's own commands. The daemon, the
shims and the commands were then killed at once, and the stored boot id was replaced by an invented one, so a daemon
that opens the home finds that "the machine restarted". The JSON files say what the same release made of each home; a
document there has no key whose value is null or false, and texts that the code words anew are left out.

`home.tar.gz` is one machine: about 300 jobs in every state, 17 queues, run dirs of every ending. The jobs named `c-*`,
`x-*` and `r-*` are the only ones that opening changes: they ran, had ended unseen, or waited for a retry.

`broker.tar.gz` is a broker that was restored from a backup: tokens, jobs sent from other machines, a drained worker w1
with two attempts, a worker w2 that has not connected since the backup, copies of logs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from tests.archives import FIXTURES, unpack
from tests.e2e.world import Grass, Job, eventually, free_port

from grassq.net.retry import exchange

HOME: dict[str, Any] = json.loads((FIXTURES / "home.json").read_text())
BROKER: dict[str, Any] = json.loads((FIXTURES / "broker.json").read_text())
FIRST, LAST = HOME["ids"]["bulk-first"], HOME["ids"]["bulk-last"]
#: Of the 200 bulk jobs `home.json` lists the first two and the last two.
BULK = range(FIRST + 2, LAST - 1)
#: What is compared of every job; `error` only where the fixture says it.
JOB_KEYS = {key for job in HOME["opened"]["jobs"] for key in job} - {"error"}


def test_a_home_of_an_earlier_release_opens(grass: Grass) -> None:
    make_home(grass, "home.tar.gz")
    jobs = check_opened(grass, HOME["opened"], BULK)
    bulk = {job["id"]: (job["state"], job["command"]) for job in grass.jobs() if job["id"] in BULK}
    assert bulk == {id_: ("queued", bulk_command(id_ - FIRST + 1)) for id_ in BULK}
    check_logs(grass, HOME["logs"])
    with grass.client() as client:
        assert [stray["path"] for stray in client.info()["strays"]] == HOME["strays"]
        asked = client.get("why", [",".join(HOME["stories"])])["jobs"]
    assert {str(job["id"]): job["story"] for job in asked} == HOME["stories"]
    check_replays(grass)
    # The jobs that waited run as they were asked to: words, directories, environments, umasks.
    grass.ok("resume")
    grass.ok("release", f"{HOME['ids']['h-new']},{HOME['ids']['h-later']}")
    until_alike(grass, after(jobs, HOME["resumed"]), BULK)
    eventually(lambda: grass.json("show")["totals"] == HOME["resumed"]["totals"], "every other job succeeds")
    check_logs(grass, HOME["resumed"]["logs"])
    with grass.client() as client:
        for number in (9, 10, 100, 101):
            assert b"".join(client.log(FIRST + number - 1)) == bulk_output(number)
    assert grass.enqueue("--", "true") == HOME["next_id"]


def test_a_restored_broker_of_an_earlier_release_opens(grass: Grass) -> None:
    make_home(grass, "broker.tar.gz")
    grass.env["GRASS_CAPACITY"] = "{cpu: 4}"
    grass.start("daemon", "--bind", f"127.0.0.1:{free_port()}", "--name", "hub")
    eventually(lambda: (grass.home / "grass.sock").exists(), "the daemon listens")
    jobs = check_opened(grass, BROKER["opened"])
    tokens = {token["id"]: token for token in grass.json("token")["tokens"]}
    assert [pick(tokens[token["id"]], token) for token in BROKER["tokens"]] == BROKER["tokens"]
    check_logs(grass, BROKER["logs"])
    grass.ok("resume")
    until_alike(grass, jobs)
    assert "w2" in grass.json("why", "11")["jobs"][0]["text"], "w2 may have run it since the backup"
    grass.ok("resume", "--restored")
    jobs = after(jobs, BROKER["resumed"])
    until_alike(grass, jobs)
    grass.ok("remove", "w1", "--lost")
    until_alike(grass, after(jobs, BROKER["removed"]))


def make_home(grass: Grass, name: str) -> None:
    """Make a fixture the home."""
    unpack(name, grass.home.parent)
    grass.home.chmod(0o700)


def check_opened(grass: Grass, opened: dict[str, Any], unlisted: Iterable[int] = ()) -> dict[int, Job]:
    """Claim that a home shows what it should once it is open; return the expected jobs by id."""
    jobs = {job["id"]: job for job in opened["jobs"]}
    until_alike(grass, jobs, unlisted)
    document = grass.json("show", "all")
    for key in ("totals", "paused", "restored"):
        assert document[key] == opened[key]
    for key in ("queues", "workers"):
        assert [pick(found, known) for found, known in zip(document[key], opened[key], strict=True)] == opened[key]
    return jobs


def check_replays(grass: Grass) -> None:
    """Claim that a request sent again with its key gets the stored answer, and does nothing."""
    before = grass.jobs()
    for replay in HOME["replays"]:
        answer = json.loads(exchange(str(grass.home), "POST", replay["path"], replay["body"].encode()).body)
        if replay["answer"] is None:
            assert [job["id"] for job in answer["jobs"]] == replay["ids"]
        else:
            assert answer == replay["answer"]
    assert grass.jobs() == before


def after(jobs: dict[int, Job], change: dict[str, Any]) -> dict[int, Job]:
    """Return expected jobs as they are after a change that lists the keys it sets."""
    changed = {id_: job | change["jobs"].get(str(id_), {}) for id_, job in jobs.items()}
    return {id_: {key: job[key] for key in job if job[key] is not None} for id_, job in changed.items()}


def until_alike(grass: Grass, expected: dict[int, Job], unlisted: Iterable[int] = ()) -> None:
    """Wait until every listed job is as expected."""

    def differing() -> list[tuple[Job, Job]]:
        jobs = {job["id"]: shortened(job) for job in grass.jobs()}
        assert jobs.keys() == expected.keys() | set(unlisted)
        return [(found, job) for id_, job in expected.items() if (found := pick_job(jobs[id_], job)) != job]

    try:
        eventually(lambda: not differing(), "jobs are as expected")
    except AssertionError:
        assert [found for found, _ in differing()] == [job for _, job in differing()]
        raise


def shortened(document: Job) -> Job:
    """Return a document without the keys whose value is null or false."""
    return {key: value for key, value in document.items() if value is not None and value is not False}


def pick(found: Job, known: Job) -> Job:
    """Return the keys of a document that the expected document has."""
    return {key: found[key] for key in known}


def pick_job(found: Job, known: Job) -> Job:
    """Return the compared keys of a job."""
    return {key: value for key, value in found.items() if key in JOB_KEYS or key in known}


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
