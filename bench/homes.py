"""Homes and daemons of a measurement, gone when it ends."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from grassq.errors import GrassError
from grassq.net.client import ApiClient

ANSWERS_S = 60.0
#: How often a condition is looked at: well below what is measured with it.
LOOK_S = 0.01
CODE_S = 600.0


@contextmanager
def clean_environment() -> Iterator[None]:
    """Nothing of whoever calls: no GRASS_ variable, and none that would make Python slow."""
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("GRASS_", "PYTHON"))]:
        # PYTHONDONTWRITEBYTECODE would have every call compile Grass anew; no installed program does that.
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for one measurement; it is there until all of them are over.

    On ext4 whoever makes files soon after many were deleted is slowed down, and that would be the next in turn.
    """
    folder = Path(tempfile.mkdtemp(prefix="grass-bench."))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    yield folder


@contextmanager
def own_home() -> Iterator[str]:
    """A home for one measurement, in this process's environment; at the end its daemon and its files go."""
    with clean_environment(), own_folder() as home:
        os.environ["GRASS_HOME"] = str(home)
        try:
            yield str(home)
        finally:
            # The command, not the request: it returns when the daemon has ended and nothing is written any more.
            subprocess.run([sys.executable, "-m", "grassq", "stop"], stdout=subprocess.DEVNULL, check=False)


class Member:
    """One machine's home and its daemon."""

    def __init__(self, folder: Path, name: str, counted: bool = False) -> None:
        """With `counted`, the daemon counts the frames it sends into the file `count`."""
        self.home = folder / name
        self.count = folder / f"{name}.count"
        self._grass = ["bench.counting", str(self.count)] if counted else ["grassq"]
        self.home.mkdir(mode=0o700)
        self.said = folder / f"{name}.said"
        self._daemon: subprocess.Popen[bytes] | None = None

    def run(self, *words: str, said: str | None = None) -> None:
        """Run `grass WORDS`, which must succeed; `said` is its stdin."""
        argv = [sys.executable, "-m", "grassq", *words]
        subprocess.run(argv, env=self._env(), input=said, text=True, stdout=subprocess.DEVNULL, check=True)

    def start(self, *words: str) -> None:
        """Start `grass daemon WORDS`."""
        with self.said.open("ab") as file:
            argv = [sys.executable, "-m", *self._grass, "daemon", *words]
            self._daemon = subprocess.Popen(argv, env=self._env(), stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def serve(self, *words: str) -> None:
        """Start `grass daemon WORDS` and wait until it answers."""
        self.start(*words)
        until(self.answers, f"an answer of the daemon in {self.home}")

    def answers(self) -> bool:
        """Whether this home's daemon answers; one that stands by does not."""
        try:
            with self.client() as client:
                client.info()
        except GrassError:
            return False
        return True

    def client(self) -> ApiClient:
        """The API of this home's own daemon."""
        return ApiClient(str(self.home), autostart=False)

    def online(self, worker: str) -> bool:
        """Whether a broker has a worker in touch."""
        with self.client() as client:
            return any(each["name"] == worker and each["online"] for each in client.show()["workers"])

    def code(self, scope: str) -> str:
        """A code, made on the broker."""
        with self.client() as client:
            return str(client.change("tokens/create", scope=scope, ttl_s=CODE_S)["code"])

    def kill(self) -> None:
        """End the daemon with SIGKILL."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def close(self) -> None:
        """End the daemon in good order."""
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.terminate()
            try:
                self._daemon.wait(ANSWERS_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def _env(self) -> dict[str, str]:
        return {**os.environ, "GRASS_HOME": str(self.home)}


class Members:
    """The machines of one measurement, all of them this one."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Members:
        self._stack.enter_context(clean_environment())
        self.folder = self._stack.enter_context(own_folder())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def member(self, name: str, counted: bool = False) -> Member:
        """Another machine."""
        member = Member(self.folder, name, counted)
        self._stack.callback(member.close)
        return member

    def worker(self, broker: Member, address: str, counted: bool = False) -> Member:
        """A worker of a broker, called node, in touch with it."""
        worker = self.member("node", counted)
        worker.run("join", broker.code("worker"), "--name", "node")
        worker.serve("--no-broker", "--connect", address)
        until(lambda: broker.online("node"), "the worker in touch")
        return worker

    def person(self, broker: Member) -> Member:
        """Somebody who may do everything at a broker."""
        person = self.member("person")
        person.run("login", broker.code("admin"))
        return person


def until(condition: Callable[[], bool], what: str, timeout_s: float = ANSWERS_S) -> float:
    """Wait for a condition; how many seconds that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise SystemExit(f"no {what} after {timeout_s:g} s")
        time.sleep(LOOK_S)
    return time.monotonic() - began


def free_address() -> str:
    """An address on loopback that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"
