"""A broker whose store was restored from a backup: no id is given twice, and no device that is in use is given away."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tests.hosts.site import Site, eventually, jobs_of, state_of

SERVE = ("--bind", "0.0.0.0:7500", "--no-worker")
#: Writes down which devices it holds, from its start to its end.
JOB = """
echo + $GRASS_JOB_ID $GRASS_LANE >> ledger
[ -z "$1" ] || until [ -e "$1" ]; do sleep 0.05; done
echo - $GRASS_JOB_ID $GRASS_LANE >> ledger
"""


def _copy_of(store: Path, where: Path) -> Path:
    """Back a store up while its broker runs, as `sqlite3 store.db .backup` does."""
    with sqlite3.connect(store) as source, sqlite3.connect(where) as target:
        source.backup(target)
    source.close()
    target.close()
    return where


def _held_twice(ledger: Path) -> Iterator[str]:
    """Yield the lines of a ledger at which a device was given while another job held it."""
    held: set[str] = set()
    for line in ledger.read_text().splitlines():
        sign, _, lane = line.split()
        if sign == "+" and lane in held:
            yield line
        (held.add if sign == "+" else held.discard)(lane)


class Restored:
    """A broker and two workers: 10 jobs before the backup and 30 after it, of which four run."""

    def __init__(self, site: Site) -> None:
        self.broker = site.broker()
        self.workers = [site.worker(self.broker, name) for name in ("node1", "node2")]
        for worker in self.workers:
            worker.write("job.sh", JOB)
            worker.ok("create-queue", "q", "--capacity", "{lane: 2}", "sh", "job.sh")
        self.person = site.person(self.broker, "ann")
        self.before = [self.enqueue() for _ in range(10)]
        self.person.ok("wait", "all")
        self.whole = site.folder / "backup"
        shutil.copytree(self.broker.home, self.whole, ignore=shutil.ignore_patterns("*.sock", "store.db-*"))
        self.backup = _copy_of(self.broker.home / "store.db", site.folder / "backup.db")
        self.after = [self.enqueue("go") for _ in range(30)]
        eventually(lambda: [state_of(self.person, id_) for id_ in self.after[:4]] == ["running"] * 4, "four run")
        for worker in self.workers:
            worker.host.cut()
        self.broker.kill_daemon()

    def enqueue(self, *words: str) -> int:
        """Submit a job that takes one device."""
        return self.person.enqueue("q", "--lane=1", *words)

    def start(self) -> None:
        """Put the backup in the place of the store, and start the broker."""
        for name in ("store.db-wal", "store.db-shm"):
            (self.broker.home / name).unlink(missing_ok=True)
        shutil.copy(self.backup, self.broker.home / "store.db")
        self.broker.serve(*SERVE)

    def heal(self) -> None:
        """Let the workers speak."""
        for worker in self.workers:
            worker.host.heal()

    def ends_well(self, ids: list[int]) -> None:
        """Check that these jobs run when the jobs of before the restore have ended, and that no device was shared."""
        eventually(lambda: not self.person.json("show")["restored"], "all workers have spoken", 60.0)
        assert {state_of(self.person, id_) for id_ in ids} == {"queued"}
        for worker in self.workers:
            (worker.cwd / "go").touch()
        self.person.ok("wait", *map(str, ids))
        for worker in self.workers:
            assert list(_held_twice(worker.cwd / "ledger")) == []


def test_jobs_that_are_submitted_before_the_workers_speak_get_ids_that_no_job_ever_had(site: Site) -> None:
    restored = Restored(site)
    restored.start()
    ids = [restored.enqueue() for _ in range(10)]
    assert min(ids) > max(restored.after)
    assert {state_of(restored.person, id_) for id_ in ids} == {"queued"}
    assert "restored" in restored.person("show").err
    restored.heal()
    restored.ends_well(ids)
    assert {job["id"] for job in jobs_of(restored.person)} == {*restored.before, *ids}


def test_a_broker_whose_whole_home_was_restored_takes_no_job_until_the_workers_have_spoken(site: Site) -> None:
    restored = Restored(site)
    shutil.rmtree(restored.broker.home)
    shutil.copytree(restored.whole, restored.broker.home)
    restored.start()
    assert "node1, node2" in restored.person.refuses(5, "enqueue", "q", "--lane=1")
    restored.heal()
    eventually(lambda: not restored.person.json("show")["restored"], "all workers have spoken", 60.0)
    new = restored.enqueue()
    assert new > max(restored.after)
    restored.ends_well([new])
