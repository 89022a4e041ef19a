"""HyperQueue and Ray: driven by a process of the environment they are installed into."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any, ClassVar

import psutil

from bench.peers.base import NOTHING, READY_S, SLOTS, Contestant, Latency, Trouble, gaps_between, limit_s, stamps
from bench.peers.drive import ENV_FOLDER, ENV_SLOTS
from bench.peers.places import ROOT, own_env, peers_bin

IMPORT_S = 30.0
END_S = 30.0
#: So much of what a driver said is shown when it fails.
SAID_CHARS = 300


class Far(Contestant):
    """A contestant whose client is a driver in another environment."""

    package: ClassVar[str]
    module: ClassVar[str]
    words: ClassVar[tuple[str, ...]] = ()

    _process: subprocess.Popen[str] | None = None

    def available(self) -> str | None:
        """Why not."""
        python = peers_bin() / "python"
        if not python.exists():
            return "not installed"
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({self.package!r}) is None)"
        known = subprocess.run([str(python), "-c", code], timeout=IMPORT_S, check=False).returncode == 0
        return None if known else "not installed"

    def set_up(self) -> None:
        """Start the driver, which starts the rest."""
        argv = [str(peers_bin() / "python"), "-m", self.module, *self.words]
        mine = {ENV_SLOTS: str(SLOTS), ENV_FOLDER: str(self.folder), "RAY_USAGE_STATS_ENABLED": "0"}
        env = {name: value for name, value in own_env(self.folder).items() if name != "RAY_ADDRESS"} | mine
        pipe = subprocess.PIPE
        with (self.folder / "said").open("wb") as said:
            # The drivers are found where this is, not where jobs run.
            self._process = subprocess.Popen(argv, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, stderr=said, text=True)
        self._read(READY_S)

    def stop(self) -> None:
        """End of input ends the driver; what it leaves behind is ended here."""
        process, self._process = self._process, None
        if process is None:
            return
        family = _family(process.pid)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        for each in psutil.wait_procs(family, timeout=1.0)[1]:
            each.kill()

    def throughput(self, count: int) -> float:
        """Many at once."""
        answer = self._ask({"do": "many", "argv": [NOTHING], "count": count, "limit_s": limit_s(count)}, limit_s(count))
        return float(answer["seconds"])

    def latency(self) -> Latency:
        """One through the open client; the clock is the same in all processes."""
        file = self.new_file()
        answer = self._ask({"do": "one", "argv": self.stamp(file)}, limit_s(1))
        [at] = stamps(file, 1)
        self._ask({"do": "settle"}, limit_s(1))
        began = int(answer["began"])
        return Latency((int(answer["returned"]) - began) / 1e6, (at - began) / 1e6)

    def gaps(self, count: int) -> list[float]:
        """One at a time."""
        file = self.new_file()
        ask = {"do": "in_turn", "argv": self.stamp(file), "count": count, "limit_s": limit_s(count)}
        self._ask(ask, limit_s(count))
        return gaps_between(stamps(file, count))

    def _ask(self, ask: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(ask) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise Trouble(self._last_words()) from error
        # The driver gives up first, and says why.
        return self._read(timeout_s + READY_S)

    def _read(self, timeout_s: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        timer = threading.Timer(timeout_s, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise Trouble(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        said = (self.folder / "said").read_text(errors="replace").strip()
        return f"its driver has ended: {' '.join(said.split())[-SAID_CHARS:] or 'without a word'}"


class HyperQueue(Far):
    """HyperQueue, from its wheel."""

    name = "HyperQueue"
    how = (
        "its wheel: server, worker and client in one process, one job of many tasks, a file for each output; no journal"
    )
    package = "hyperqueue"
    module = "bench.peers.drive_hyperqueue"


class Ray(Far):
    """Ray's tasks, each of them a program."""

    name = "Ray"
    how = "a task per job, which starts the program by posix_spawn and waits for it"
    package = "ray"
    module = "bench.peers.drive_ray"


class RayFunctions(Ray):
    """Ray's tasks as they are meant."""

    name = "Ray, functions"
    how = (
        "a task that is a function in a process which runs already: no program is started, so only its latency is taken"
    )
    words = ("functions",)
    starts_programs = False


def _family(pid: int) -> list[psutil.Process]:
    try:
        return [*psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
