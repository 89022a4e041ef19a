"""A broker, workers and people on hosts of their own, and the moves that tests make with them."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.world import BIN, Done, Grass, Job, Word, end, eventually, is_alive, kill_all, processes_of
from tests.hosts.net import Host, Net

from grassq.errors import GrassError
from grassq.net.client import ApiClient

PORT = 7500
BROKER = "my.server.com"
#: A pretend worker has this, whatever the real machine has.
CAPACITY = "{cpu: 4, mem: 8000}"


class Machine(Grass):
    """One user on one host."""

    def __init__(self, host: Host, folder: Path) -> None:
        cwd = folder / "work"
        cwd.mkdir(parents=True)
        super().__init__(folder / "home", cwd, host.prefix)
        self.host = host
        self.env["GRASS_CAPACITY"] = CAPACITY
        self.daemon: subprocess.Popen[bytes] | None = None
        self.said = folder / "said"

    def boots_on_its_own(self) -> None:
        """Give this machine a boot id of its own; without it all hosts have that of the real machine."""
        boot = self.cwd.parent / "boot_id"
        boot.write_text("11111111-2222-3333-4444-555555555555\n")
        script = f'mount --bind {boot} /proc/sys/kernel/random/boot_id && exec "$@"'
        self.prefix = [*self.prefix, "sh", "-c", script, "sh"]

    def serve(self, *words: Word) -> None:
        """Run `grass daemon WORDS` in a terminal of its own until it answers."""
        with self.said.open("ab") as file:
            self.daemon = self.start("daemon", *words, stdout=file, stderr=file)
        eventually(lambda: self._answers() or self.daemon_ended(), "the daemon answers")
        assert not self.daemon_ended(), self.said.read_text()

    def answering(self, script: str, answer: str = "") -> None:
        """Type commands that ask questions, and answer each question with the same line."""
        answers = f"{answer}\n".encode() * 20
        for line in filter(None, script.splitlines()):
            # In a session of its own openssl finds no terminal, and so reads its answers where it is told to.
            argv = [*self.prefix, "setsid", "--wait", "bash", "-c", line]
            done = subprocess.run(
                argv, cwd=self.cwd, env=self.env, input=answers, capture_output=True, timeout=60, check=False
            )
            assert done.returncode == 0, (line, done.stderr)

    def daemon_ended(self) -> bool:
        """Whether the daemon started by `serve` is gone."""
        return self.daemon is not None and self.daemon.poll() is not None

    def _answers(self) -> bool:
        try:
            with ApiClient(str(self.home), autostart=False) as client:
                client.info()
        except GrassError:
            return False
        return True

    def code(self, *words: Word) -> str:
        """A new code, made on the broker."""
        return str(self.json("token", "create", *words)["code"])

    def first_codes(self) -> list[str]:
        """The codes the broker printed when it started: for a worker, then for a person."""

        def printed() -> list[str]:
            found = re.findall(r"grass1\.\S+", self.said.read_text())
            return found if len(found) >= 2 else []

        return list(eventually(printed, "two codes are printed"))

    def brokers(self) -> list[dict[str, Any]]:
        """What this home knows of brokers."""
        found: list[dict[str, Any]] = json.loads((self.home / "brokers.json").read_text())["brokers"]
        return found

    def show(self) -> dict[str, Any]:
        """What `show` says on this machine, by its own socket."""
        with ApiClient(str(self.home), autostart=False) as client:
            return client.show()

    def worker(self, name: str) -> Job:
        """One worker as `show` has it; empty while unknown."""
        found: list[Job] = self.show()["workers"]
        return next((each for each in found if each["name"] == name), {})

    def until_online(self, *names: str) -> None:
        """Wait until these workers are connected."""
        eventually(lambda: all(self.worker(name).get("online") for name in names), f"{names} are online")

    def stop(self) -> None:
        """End the daemon as a user would."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait(30)

    def kill_daemon(self) -> None:
        """End the daemon with SIGKILL."""
        assert self.daemon is not None
        self.crash()
        self.daemon.wait(30)

    def close(self) -> None:
        """End everything of this home."""
        left = processes_of(self.home)
        kill_all(left)
        for process in self.foreground:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(30)
        eventually(lambda: not processes_of(self.home), "processes of a closed home leave", 15.0)


class Site:
    """Everything of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.net = Net()
        self.machines: list[Machine] = []

    def machine(self, name: str) -> Machine:
        """Somebody on a host of their own, who knows the broker by name."""
        host = self.net.host(name)
        brokers = [each for each in self.net.hosts if each.name.startswith("broker")]
        host.knows({BROKER: brokers[0].address, **{each.name: each.address for each in brokers}})
        machine = Machine(host, self.folder / name)
        self.machines.append(machine)
        return machine

    def broker(self, *words: Word, name: str = "broker", env: dict[str, str] | None = None) -> Machine:
        """A broker, listening on all its addresses."""
        broker = self.machine(name)
        broker.env |= env or {}
        broker.serve("--bind", f"0.0.0.0:{PORT}", "--no-worker", *words)
        return broker

    def worker(self, broker: Machine, name: str, *words: Word, connect: str = f"{BROKER}:{PORT}") -> Machine:
        """A worker that has joined and is connected."""
        worker = self.machine(name)
        worker.ok("join", broker.code("--scope", "worker"), "--name", name)
        worker.serve("--no-broker", "--connect", connect, *words)
        broker.until_online(name)
        return worker

    def person(self, broker: Machine, name: str, *words: Word) -> Machine:
        """Somebody without a daemon who has logged in and uses the broker."""
        person = self.machine(name)
        person.ok("login", broker.code("--name", name, *(words or ("--scope", "admin"))))
        person.ok("use", f"{BROKER}:{PORT}")
        return person

    def close(self) -> None:
        """Take everything down."""
        for machine in self.machines:
            machine.host.heal()
        for machine in reversed(self.machines):
            machine.close()
        self.net.close()


def jobs_of(person: Machine, *selectors: str) -> list[Job]:
    """Jobs as somebody far away sees them."""
    found: list[Job] = json.loads(person.ok("show", *(selectors or ("all",)), "--json"))["jobs"]
    return found


def state_of(person: Machine, id_: int) -> str:
    """The state of one job as somebody far away sees it."""
    return str(jobs_of(person, str(id_))[0]["state"])


__all__ = [
    "BIN",
    "BROKER",
    "CAPACITY",
    "PORT",
    "Done",
    "Machine",
    "Site",
    "Word",
    "end",
    "eventually",
    "is_alive",
    "jobs_of",
    "state_of",
]
