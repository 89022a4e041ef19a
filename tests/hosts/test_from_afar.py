"""Every command from another machine, with and without a daemon there; and what a job from elsewhere is not given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.hosts.site import Machine, Site, eventually, jobs_of, state_of

CANARY = "a-secret-of-the-sender"


def _queue(worker: Machine) -> None:
    worker.write("job.sh", 'echo job $1; [ -z "$2" ] || until [ -e "$2" ]; do sleep 0.05; done; exit ${3:-0}\n')
    worker.ok("create-queue", "q", "--cpu=2", "sh", "job.sh")


@pytest.mark.parametrize("how", ["use", "GRASS_BROKER", "--broker", "a daemon of its own beside"])
def test_every_command_works_from_another_machine(site: Site, how: str) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    _queue(worker)
    person = site.machine("laptop")
    if "daemon" in how:
        person.ok("start")
        assert person.run("echo", "here") == "here\n"
    person.ok("login", broker.code("--name", "ann", "--scope", "admin"))
    flag: tuple[str, ...] = ()
    if how == "GRASS_BROKER":
        person.env["GRASS_BROKER"] = "my.server.com:7500"
    elif how == "--broker":
        flag = ("--broker", "my.server.com:7500")
    else:
        person.ok("use", "my.server.com")

    def ok(verb: str, *words: str) -> str:
        return person.ok(verb, *flag, *words)

    assert ok("enqueue", "q", "1") == "job 1 queued in q\n"
    ok("wait", "1")
    assert ok("log", "1") == "job 1\n" and ok("follow", "1") == "job 1\n"
    assert ok("run", "q", "2").endswith("job 2\n")
    assert person("run", *flag, "q", "3", "", "7").code == 7
    assert ok("enqueue", "--hold", "-q", "q", "4", "go") == "4\n"
    ok("hold", "4")
    ok("priority", "4", "40")
    assert "held" in ok("why", "4")
    ok("release", "4")
    eventually(lambda: json.loads(ok("show", "--json", "4"))["jobs"][0]["state"] == "running", "it runs")
    ok("kill", "--grace", "1s", "4")
    assert person("wait", *flag, "4").code == 1
    assert "job 5 is a rerun of job 1" in ok("rerun", "1")
    ok("wait", "5")
    ok("pause", "q")
    ok("resume", "q")
    ok("create-queue", "--worker", "node", "more", "echo")
    ok("delete-queue", "--worker", "node", "more")
    ok("drain", "node")
    ok("drain", "node", "--undo")
    assert "ann" in ok("token") and "grass1." in ok("token", "create")
    told = ok("audit", "--last", "100")
    assert "redeem" in told and "job 1 in q" in told
    assert "removed 5 jobs" in ok("clean", "--yes")
    assert "node" in ok("show") and "node" in ok("info") and "node" in ok("status")
    if "daemon" not in how:
        assert not (person.home / "grass.sock").exists(), "nothing was started here"


def test_a_sender_gives_a_job_nothing_of_its_own_machine(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    worker.write("show.sh", "env; pwd; umask\n")
    worker.ok("create-queue", "look", "--allow-env", "FLAVOUR", "sh", "show.sh")
    person = site.person(broker, "ann", "--scope", "submit")
    person.env |= {"CANARY": CANARY, "PATH": f"/opt/{CANARY}:{person.env['PATH']}"}
    id_ = person.enqueue("look", "--env", "FLAVOUR=sweet")
    person.ok("wait", str(id_))
    said = person.log(id_)
    assert "FLAVOUR=sweet\n" in said and f"\n{worker.cwd}\n" in said
    assert CANARY not in said and str(person.cwd) not in said
    for home in (broker.home, worker.home):
        assert not [path for path in home.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert "BAD" in person.refuses(5, "enqueue", "look", "--env", "BAD=1")
    assert "--cwd" in person.refuses(5, "enqueue", "look", "--cwd", "/tmp")
    assert "shell" in person.refuses(2, "enqueue", "look", "--shell", "--", "id")


def test_a_bare_queue_is_for_those_who_were_let_in(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    worker.ok("create-queue", "open", "--unsecure")
    worker.ok("create-queue", "shut")
    person = site.person(broker, "ann", "--scope", "submit")
    assert "no command" in person.refuses(5, "enqueue", "--queue", "shut", "--", "id")
    id_ = person.enqueue("--queue", "open", "--cwd", "/", "--env", "A=b", "--", "sh", "-c", "pwd; echo $A")
    person.ok("wait", str(id_))
    assert person.log(id_) == "/\nb\n"
    trusted = site.person(broker, "bob", "--scope", "submit", "--bare")
    id_ = trusted.enqueue("--queue", "shut", "--", "echo", "fine")
    trusted.ok("wait", str(id_))
    limited = site.person(broker, "cid", "--scope", "submit", "--queue", "open")
    assert "open" in limited.refuses(5, "enqueue", "--queue", "shut", "--", "id")
    assert "another token" in limited.refuses(5, "kill", str(id_))
    reader = site.person(broker, "eve", "--scope", "read")
    assert len(jobs_of(reader)) == 2
    assert "read" in reader.refuses(5, "enqueue", "--queue", "open", "--", "id")


def test_a_queue_that_loses_its_command_does_not_run_what_was_sent_to_it(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    worker.ok("create-queue", "q", "echo")
    person = site.person(broker, "ann", "--scope", "submit")
    broker.ok("pause")
    id_ = person.enqueue("q", "touch", str(worker.cwd / "pwned"))
    worker.ok("create-queue", "q")
    broker.ok("resume")
    eventually(lambda: state_of(person, id_) == "waiting", "it waits")
    assert "no command" in person.ok("why", str(id_))
    worker.ok("create-queue", "q", "echo", "again")
    person.ok("wait", str(id_))
    assert person.log(id_).startswith("again touch") and not (worker.cwd / "pwned").exists()


SKEW = """
import time
real = time.time
time.time = lambda: real() + {seconds}
"""


@pytest.mark.parametrize("seconds", [86400, -86400], ids=["a day ahead", "a day behind"])
def test_a_worker_whose_clock_is_wrong_works_all_the_same(site: Site, seconds: int) -> None:
    broker = site.broker()
    worker = site.machine("node")
    patches: Path = worker.cwd / "patches"
    patches.mkdir()
    (patches / "sitecustomize.py").write_text(SKEW.format(seconds=seconds))
    worker.ok("join", broker.code("--scope", "worker"), "--name", "node")
    worker.env["PYTHONPATH"] = str(patches)
    worker.serve("--no-broker", "--connect", "my.server.com:7500")
    _queue(worker)
    person = site.person(broker, "ann")
    plain = person.enqueue("q", "1")
    leased = person.enqueue("--on-lost", "requeue", "q", "2", "go")
    person.ok("wait", str(plain))
    eventually(lambda: state_of(person, leased) == "running", "it runs")
    worker.host.cut()
    eventually(lambda: jobs_of(person, str(leased))[0]["unreachable"], "it is cut off")
    worker.host.heal()
    eventually(lambda: not jobs_of(person, str(leased))[0]["unreachable"], "it is back")
    (worker.cwd / "go").touch()
    eventually(lambda: state_of(person, leased) == "succeeded", "it ends well", 60.0)
    assert jobs_of(person, str(leased))[0]["attempt"] == 1
