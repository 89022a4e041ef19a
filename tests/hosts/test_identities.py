"""Who may come in, and that it ends at once: tokens, copies of a worker, a broker restored from a backup."""

from __future__ import annotations

import shutil

from tests.hosts.site import Machine, Site, eventually, jobs_of, state_of


def _gated(worker: Machine) -> None:
    worker.write("hold.sh", "until [ -e go ]; do sleep 0.05; done\n")
    worker.ok("create-queue", "q", "--cpu=4", "sh", "hold.sh")


def _one_runs(site: Site) -> tuple[Machine, Machine, Machine, int]:
    """A broker, a worker, a person, and a job that runs until its gate opens."""
    broker = site.broker()
    worker = site.worker(broker, "node")
    _gated(worker)
    person = site.person(broker, "ann")
    id_ = person.enqueue("q")
    eventually(lambda: state_of(person, id_) == "running", "it runs")
    return broker, worker, person, id_


def test_a_revoked_token_ends_what_is_open_at_once(site: Site) -> None:
    broker, _, person, id_ = _one_runs(site)
    follower = person.start("log", "-f", str(id_))
    waiter = person.start("wait", str(id_))
    token = next(each["id"] for each in broker.json("token")["tokens"] if each["name"] == "ann" and not each["is_code"])
    broker.ok("token", "revoke", token)
    assert follower.wait(30) != 0 and waiter.wait(30) != 0
    assert "grass login" in person.refuses(5, "show")


def test_a_removed_worker_is_let_in_no_more_and_its_jobs_are_given_up(site: Site) -> None:
    broker, worker, person, _ = _one_runs(site)
    assert "holds" in person.refuses(5, "remove", "node")
    assert "is online" in person.refuses(5, "remove", "node", "--lost")
    worker.kill_daemon()
    eventually(lambda: not broker.worker("node")["online"], "it is out of touch")
    person.ok("remove", "node", "--lost")
    assert jobs_of(person)[0]["state"] == "failed"
    assert broker.worker("node") == {}
    worker.serve("--no-broker", "--connect", "my.server.com:7500")
    with worker.client() as client:
        eventually(lambda: client.info()["broker"]["refused"], "the worker is told")


def test_a_drained_worker_finishes_what_it_has_and_gets_nothing_new(site: Site) -> None:
    _, worker, person, first = _one_runs(site)
    person.ok("drain", "node")
    second = person.enqueue("q")
    assert "drained" in person.ok("why", str(second))
    (worker.cwd / "go").touch()
    person.ok("wait", str(first))
    assert state_of(person, second) == "queued"
    person.ok("drain", "node", "--undo")
    person.ok("wait", str(second))


def test_labels_and_names_choose_the_worker(site: Site) -> None:
    broker = site.broker()
    for name, label in (("plain", "small"), ("fast", "a100")):
        site.worker(broker, name, "--label", label).ok("create-queue", "q", "echo")
    person = site.person(broker, "ann")
    ids = [person.enqueue("--queue", "q", *words, "x") for words in (("--label", "a100"), ("--worker", "plain"))]
    person.ok("wait", "all")
    assert [jobs_of(person, str(id_))[0]["worker"] for id_ in ids] == ["fast", "plain"]
    assert "a100" in person.ok("show")
    assert "label" in person.refuses(5, "enqueue", "--queue", "q", "--label", "none", "x")


def test_a_queue_is_made_on_a_worker_that_was_named(site: Site) -> None:
    broker = site.broker()
    site.worker(broker, "node")
    person = site.person(broker, "ann")
    person.ok("create-queue", "--worker", "node", "say", "--cpu=1", "echo", "hello")
    id_ = person.enqueue("say", "you")
    person.ok("wait", str(id_))
    assert person.log(id_) == "hello you\n"
    person.ok("delete-queue", "say", "--worker", "node")
    assert [queue["name"] for queue in person.json("show")["queues"]] == ["default"]


def test_a_copy_of_a_workers_home_is_refused(site: Site) -> None:
    broker = site.broker()
    worker = site.worker(broker, "node")
    worker.ok("create-queue", "q", "echo")
    copy = site.machine("copy")
    shutil.copytree(worker.home, copy.home, ignore=shutil.ignore_patterns("*.sock", "daemon.*"), symlinks=True)
    copy.serve("--no-broker", "--connect", "my.server.com:7500")
    with copy.client() as client:
        eventually(lambda: client.info()["broker"]["refused"], "the copy is refused while the first one is there")
        eventually(lambda: "join" in client.info()["broker"]["trouble"], "the copy is told what to do")
    assert broker.worker("node")["online"]
    person = site.person(broker, "ann")
    id_ = person.enqueue("q", "still here")
    person.ok("wait", str(id_))
    copy.stop()
    # The first one connects once more, and so has a ticket that the copy does not know.
    worker.stop()
    worker.serve("--no-broker", "--connect", "my.server.com:7500")
    broker.until_online("node")
    # Its report of a job comes after its word that it has the new ticket.
    id_ = person.enqueue("q", "and again")
    person.ok("wait", str(id_))
    worker.stop()
    copy.serve("--no-broker", "--connect", "my.server.com:7500")
    with copy.client() as client:
        eventually(lambda: client.info()["broker"]["refused"], "the copy is refused when it is alone, too")


def test_a_broker_restored_from_a_backup_learns_what_ran_and_runs_nothing_again(site: Site) -> None:
    broker = site.broker()
    workers = [site.worker(broker, name) for name in ("node1", "node2")]
    ran = site.folder / "ran"
    for worker in workers:
        worker.write("job.sh", f"echo $GRASS_JOB_ID >> {ran}; exit $1\n")
        worker.ok("create-queue", "q", "--cpu=2", "sh", worker.cwd / "job.sh")
    person = site.person(broker, "ann")
    person.ok("pause", "q")
    before = [person.enqueue("q", "0") for _ in range(5)]
    broker.stop()
    backup = site.folder / "backup"
    shutil.copytree(broker.home, backup, ignore=shutil.ignore_patterns("*.sock"))
    words = ("--bind", "0.0.0.0:7500", "--no-worker")
    broker.serve(*words)
    broker.until_online("node1", "node2")
    person.ok("resume", "q")
    after = [person.enqueue("q", str(n % 3)) for n in range(10)]
    person("wait", "all")
    # A heartbeat later every worker has heard how far the history has come.
    for worker in workers:
        worker.stop()
    broker.stop()
    shutil.rmtree(broker.home)
    shutil.copytree(backup, broker.home)
    broker.serve(*words)
    person.ok("resume", "q")
    workers[0].serve("--no-broker", "--connect", "my.server.com:7500")
    eventually(lambda: "node2" in person.json("show")["restored"], "the broker doubts until node2 has spoken")
    assert "restored from a backup" in person("show").err
    workers[1].serve("--no-broker", "--connect", "my.server.com:7500")
    eventually(lambda: not person.json("show")["restored"], "all have spoken")
    held = dict.fromkeys(before, "held")
    eventually(lambda: {job["id"]: job["state"] for job in jobs_of(person)} == held, "jobs of the backup are held")
    assert sorted(map(int, ran.read_text().split())) == before + after
    assert person.enqueue("q", "0") > max(after)
    named = []
    for worker in workers:
        with worker.client() as client:
            named += [stray["path"] for stray in client.info()["strays"]]
    assert sorted(named) == sorted(f"jobs/{id_}/1" for id_ in before + after)
