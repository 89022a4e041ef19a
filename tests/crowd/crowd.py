"""One broker and many real workers on loopback, each a process with a home of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.e2e.world import BIN, environment, eventually, free_port, kill_all, processes_of

from grassq.errors import GrassError
from grassq.net.client import ApiClient

#: How many programs start at once: more would only wait for each other.
AT_ONCE = 4
START_S = 120.0
#: Two jobs at a time on each worker, whatever the real machine has.
CAPACITY = "{cpu: 2}"
#: A line for each begin and each end, appended in one write; how it ends follows from the id. Some take longer, so that
#: there is always one under way when something is killed.
SCRIPT = """\
echo "begin $GRASS_JOB_ID $GRASS_ATTEMPT" >> ledger
[ $((GRASS_JOB_ID % 10)) -ne 0 ] || sleep 0.3
echo "hello from $GRASS_JOB_ID"
echo "end $GRASS_JOB_ID $GRASS_ATTEMPT" >> ledger
exit $((GRASS_JOB_ID % 7))
"""


class Line(NamedTuple):
    """What a job wrote down itself."""

    what: str
    job: int
    attempt: int


class Member:
    """One machine's home and its daemon."""

    #: What `grass` is in its place.
    program: tuple[str, ...] = (str(BIN / "grass"),)

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.home = folder / name / "home"
        self.cwd = folder / name / "work"
        self.cwd.mkdir(parents=True)
        self.said = folder / name / "said"
        self.ledger = self.cwd / "ledger"
        self._env = environment(self.home, {"GRASS_CAPACITY": CAPACITY})
        # Each daemon would compile all of Grass anew.
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)
        self._words: tuple[str, ...] = ()
        self.daemon: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> str:
        """Run `grass WORDS`, which must succeed; what it printed."""
        argv = [*self.program, *words]
        done = subprocess.run(argv, cwd=self.cwd, env=self._env, capture_output=True, timeout=START_S, check=False)
        assert done.returncode == 0, done
        return done.stdout.decode()

    def serve(self, *words: str) -> None:
        """Start `grass daemon WORDS` and wait until it answers."""
        self._words = words
        argv = [*self.program, "daemon", *words]
        with self.said.open("ab") as file:
            self.daemon = subprocess.Popen(
                argv, cwd=self.cwd, env=self._env, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        eventually(self._answers, f"{self.name} answers", START_S)

    def _answers(self) -> bool:
        assert self.daemon is not None and self.daemon.poll() is None, self.said.read_text()
        try:
            with self.client() as client:
                client.info()
        except GrassError:
            return False
        return True

    def kill(self) -> None:
        """End the daemon with SIGKILL; its jobs run on."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait(START_S)

    def serve_again(self) -> None:
        """Start the daemon as it was started first."""
        self.serve(*self._words)

    def client(self) -> ApiClient:
        """The API of this home's own daemon."""
        return ApiClient(str(self.home), autostart=False)

    def peak_mib(self) -> int:
        """The most memory the daemon has ever held."""
        assert self.daemon is not None
        status = Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) >> 10

    def lines(self) -> list[Line]:
        """What its jobs wrote down, in order."""
        if not self.ledger.exists():
            return []
        words = [line.split() for line in self.ledger.read_text().splitlines()]
        return [Line(what, int(job), int(attempt)) for what, job, attempt in words]


class Crowd:
    """The broker, its workers, and somebody who submits to it over TLS."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self.broker = Member(folder, "broker")
        self.person = Member(folder, "person")
        self.workers = [Member(folder, f"w{number:02}") for number in range(count)]

    @property
    def members(self) -> list[Member]:
        """Everybody."""
        return [self.broker, self.person, *self.workers]

    def begin(self) -> None:
        """Start the broker, let everybody in, and wait until every worker offers the queue."""
        self.broker.serve("--bind", self.address, "--no-worker")
        with self.broker.client() as client:
            code = client.change("tokens/create", scope="submit", name="ann", queues=["q"], ttl_s=START_S)["code"]
            self.person.run("login", code)
            codes = [self._code(client, worker) for worker in self.workers]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._bring_in, self.workers, codes))
        eventually(lambda: len(self.online()) == len(self.workers), "every worker is online", START_S)

    def _code(self, client: ApiClient, worker: Member) -> str:
        made = client.change("tokens/create", scope="worker", name=worker.name, ttl_s=START_S)
        return str(made["code"])

    def _bring_in(self, worker: Member, code: str) -> None:
        worker.run("join", code, "--name", worker.name)
        (worker.cwd / "job.sh").write_text(SCRIPT)
        worker.serve("--no-broker", "--connect", self.address)
        with worker.client() as client:
            client.create_queue([b"q", b"--cpu=2", b"sh", b"job.sh"], cwd=bytes(worker.cwd))

    def online(self) -> set[str]:
        """The workers in touch that offer the queue."""
        with self.broker.client() as client:
            shown = client.show()
        offered = [queue for queue in shown["queues"] if queue["name"] == "q"]
        return {worker["name"] for worker in shown["workers"] if worker["online"]} if offered else set()

    def submitter(self) -> ApiClient:
        """The broker's API over TLS, with a token that may only submit."""
        return ApiClient(str(self.person.home), broker=self.address)

    def started(self) -> int:
        """How many jobs have begun by now, as the workers wrote it down themselves."""
        return sum(line.what == "begin" for worker in self.workers for line in worker.lines())

    def close(self) -> None:
        """End every daemon as a user would; what does not leave by itself fails the test."""
        for member in self.members:
            if member.daemon is not None and member.daemon.poll() is None:
                member.daemon.terminate()
        try:
            for member in self.members:
                if member.daemon is not None:
                    member.daemon.wait(START_S)
            eventually(lambda: not processes_of(self.folder), "processes of a stopped crowd leave", 30.0)
        finally:
            left = processes_of(self.folder)
            kill_all(left)
        assert not left, left


@contextmanager
def crowd(folder: Path, count: int) -> Iterator[Crowd]:
    """A crowd that is at work, and the certainty that nothing of it is left."""
    found = Crowd(folder, count)
    try:
        found.begin()
        yield found
    finally:
        found.close()
