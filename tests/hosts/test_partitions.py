"""Links that are cut, one-way, and healed: what runs, runs on; nothing runs twice; everything is told in the end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.hosts.site import Machine, Site, eventually, is_alive, jobs_of, state_of

#: F32: a silent worker's jobs are shown unreachable within this.
UNREACHABLE_S = 30.0


def _gate(worker: Machine, name: str = "go") -> Path:
    return worker.cwd / name


def _queue(worker: Machine) -> None:
    worker.write("hold.sh", 'echo begin $1; until [ -e "go" ]; do sleep 0.05; done; echo end $1; exit ${2:-0}\n')
    worker.ok("create-queue", "q", "--cpu=4", "sh", "hold.sh")


def _unreachable(person: Machine, id_: int) -> bool:
    return bool(jobs_of(person, str(id_))[0]["unreachable"])


@pytest.mark.parametrize("way", [{}, {"inward": False}, {"outward": False}], ids=["both", "no-way-out", "no-way-in"])
def test_a_cut_worker_runs_on_is_shown_unreachable_and_tells_all_when_healed(site: Site, way: dict[str, bool]) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    other = site.worker(broker, "other")
    _queue(worker)
    person = site.person(broker, "ann")
    ids = [person.enqueue("q", f"j{n}", str(n)) for n in range(3)]
    eventually(lambda: all(state_of(person, id_) == "running" for id_ in ids), "all run")
    _queue(other)
    worker.host.cut(**way)
    begun = time.monotonic()
    eventually(lambda: _unreachable(person, ids[0]), "shown unreachable", UNREACHABLE_S)
    assert time.monotonic() - begun < UNREACHABLE_S
    assert "unreachable" in person.ok("show", str(ids[0]))
    assert "has not been heard from" in person.ok("why", str(ids[0]))
    # It ends while nobody can hear it, and nobody else starts it.
    _gate(worker).touch()
    eventually(lambda: not any(is_alive(job["pid"] or 0) for job in jobs_of(person)), "ended, unheard")
    assert [state_of(person, id_) for id_ in ids] == ["running"] * 3
    worker.host.heal()
    person.ok("wait", "--timeout", "60s", str(ids[0]))
    eventually(lambda: [job["exit_code"] for job in jobs_of(person)] == [0, 1, 2], "all ends are told")
    assert {job["worker"] for job in jobs_of(person)} == {"node"}
    assert {job["attempt"] for job in jobs_of(person)} == {1}
    assert person.log(ids[1]) == "begin j1\nend j1\n"


def test_a_broker_may_be_killed_again_and_again_and_every_end_arrives(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    worker.write("quick.sh", "echo $1 >> ran; exit $((($1 * 7) % 5))\n")
    worker.ok("create-queue", "q", "--cpu=4", "sh", "quick.sh")
    person = site.person(broker, "ann")
    ids = []
    for n in range(24):
        ids.append(person.enqueue("q", str(n)))
        if n % 4 == 3:
            broker.kill_daemon()
            broker.serve("--bind", "0.0.0.0:7500", "--no-worker")
    eventually(lambda: all(job["state"] in ("succeeded", "failed") for job in jobs_of(person)), "all ended", 90.0)
    assert [job["exit_code"] for job in jobs_of(person)] == [(n * 7) % 5 for n in range(24)]
    assert sorted(map(int, (worker.cwd / "ran").read_text().split())) == list(range(24))


def test_a_workers_daemon_may_be_killed_and_its_jobs_end_as_they_would(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    _queue(worker)
    person = site.person(broker, "ann")
    ids = [person.enqueue("q", f"j{n}", str(n)) for n in range(3)]
    eventually(lambda: all(state_of(person, id_) == "running" for id_ in ids), "all run")
    worker.kill_daemon()
    _gate(worker).touch()
    eventually(lambda: _unreachable(person, ids[0]), "shown unreachable", UNREACHABLE_S)
    worker.serve("--no-broker", "--connect", "my.server.com:7500")
    eventually(lambda: [job["exit_code"] for job in jobs_of(person)] == [0, 1, 2], "all ends are told", 60.0)
    assert {job["attempt"] for job in jobs_of(person)} == {1}


def test_logs_are_followed_through_the_broker_and_are_there_when_the_worker_is_off(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    _queue(worker)
    person = site.person(broker, "ann")
    id_ = person.enqueue("q", "first")
    eventually(lambda: state_of(person, id_) == "running", "it runs")
    seen = person.cwd / "seen"
    with seen.open("wb") as file:
        follower = person.start("log", "-f", str(id_), stdout=file)
    eventually(lambda: seen.read_text() == "begin first\n", "the follower sees the first line")
    _gate(worker).touch()
    assert follower.wait(60) == 0
    assert seen.read_text() == "begin first\nend first\n"
    # The copy is fetched in the background, after the end was stored.
    with broker.client() as client:
        eventually(lambda: client.info()["log_cache"]["logs"] == 1, "the broker keeps a copy")
    worker.stop()
    eventually(lambda: not broker.worker("node")["online"], "the worker is off")
    assert person.log(id_) == "begin first\nend first\n"


def test_a_follower_outlasts_a_broker_that_is_killed_and_comes_back(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    _queue(worker)
    person = site.person(broker, "ann")
    id_ = person.enqueue("q", "first")
    seen = person.cwd / "seen"
    with seen.open("wb") as file:
        follower = person.start("log", "-f", str(id_), stdout=file)
    eventually(lambda: seen.read_text() == "begin first\n", "the follower sees the first line")
    # The worker is away as well for a moment, so the new broker has nobody to ask for the log.
    worker.host.cut()
    broker.kill_daemon()
    broker.serve("--bind", "0.0.0.0:7500", "--no-worker")
    worker.host.heal()
    _gate(worker).touch()
    assert follower.wait(90) == 0
    assert seen.read_text() == "begin first\nend first\n"


def test_a_missing_directory_on_the_worker_is_told_in_words(site: Site) -> None:
    broker = site.broker()
    site.worker(broker, "node")
    person = site.person(broker, "ann")
    id_ = person.enqueue("--cwd", "/no/such/place", "--queue", "default", "--", "true")
    done = person("wait", str(id_))
    assert done.code == 1
    assert "/no/such/place" in person.ok("why", str(id_))
