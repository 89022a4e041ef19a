"""A home, a daemon and the few moves every end-to-end test makes with them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from grassq.errors import GrassError
from grassq.net.client import ApiClient

DEADLINE_S = 30.0
BIN = Path(sys.executable).parent
#: What the tests' machine has, whatever the real one has; devices are declared by queues.
CAPACITY = "{cpu: 8, mem: 16000}"
FINAL = ("succeeded", "failed", "cancelled")
#: Below those that Linux gives to a socket that is bound to no port: a port stays free while its daemon is away.
PORTS = range(20_000, 32_000)

Word = str | bytes | Path
Job = dict[str, Any]
Env = Mapping[str, str]
T = TypeVar("T")


class Done(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def eventually(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Wait for a condition, never for a time."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {deadline_s} s"
        time.sleep(0.01)
    return found


def free_port() -> int:
    """A port of loopback that nobody has now, and that the system gives to nobody who asks for any port."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in ("Z", "X")


def end(pid: int, sig: int = signal.SIGKILL) -> None:
    """Signal one process and wait until it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, sig)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(DEADLINE_S * 1000), f"process {pid} does not end"
    finally:
        os.close(fd)


def processes_of(home: Path) -> dict[int, str]:
    """Every living process that belongs to a home, by its command line, environment or open files."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if _belongs(entry, os.fsencode(home)):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return {pid: words for pid, words in found.items() if is_alive(pid)}


def _belongs(entry: Path, home: bytes) -> bool:
    if home in (entry / "cmdline").read_bytes().split(b"\0"):
        return True
    if b"GRASS_HOME=" + home in (entry / "environ").read_bytes().split(b"\0"):
        return True
    streams = (os.fsencode(fd.readlink()) for fd in (entry / "fd").iterdir() if fd.name in ("1", "2"))
    return any(target.startswith(home + b"/") for target in streams)


def environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of somebody who has just logged in, with our commands first on PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRASS_", "CUDA_", "PYTEST"))}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "GRASS_HOME": str(home), **extra}


class Grass:
    """One user's Grass: commands typed in `cwd`, state in `home`."""

    def __init__(self, home: Path, cwd: Path, prefix: Iterable[str] = ()) -> None:
        """`prefix` is what makes a command run on this user's machine, if that is not ours."""
        self.home = home
        self.cwd = cwd
        self.prefix = list(prefix)
        self.env = environment(home, {"GRASS_CAPACITY": CAPACITY})
        self.foreground: list[subprocess.Popen[bytes]] = []

    def __call__(self, *words: Word, cwd: Path | None = None, timeout_s: float = 60.0, env: Env | None = None) -> Done:
        """Run `grass WORDS` to its end."""
        return self.program(BIN / "grass", *words, cwd=cwd, timeout_s=timeout_s, env=env)

    def program(self, *argv: Word, cwd: Path | None = None, timeout_s: float = 60.0, env: Env | None = None) -> Done:
        """Run any program in this user's place to its end."""
        done = subprocess.run(
            [os.fsencode(word) for word in (*self.prefix, *argv)],
            cwd=cwd or self.cwd,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
        assert "Traceback" not in err, err
        return Done(done.returncode, out, err)

    def bash(self, script: str) -> Done:
        """Type a block of commands into bash."""
        return self.program("bash", "-e", "-c", script)

    def start(self, *words: Word, **options: Any) -> subprocess.Popen[bytes]:
        """Run `grass WORDS` and go on; it is ended with the test."""
        argv = [os.fsencode(word) for word in (*self.prefix, BIN / "grass", *words)]
        settings: dict[str, Any] = {"cwd": self.cwd, "env": self.env, "stdin": subprocess.DEVNULL, **options}
        process = subprocess.Popen(argv, **settings)
        self.foreground.append(process)
        return process

    def ok(self, *words: Word, cwd: Path | None = None, env: Env | None = None) -> str:
        """Run a command that must succeed; what it printed."""
        done = self(*words, cwd=cwd, env=env)
        assert done.code == 0, done
        return done.out

    def refuses(self, code: int, *words: Word, cwd: Path | None = None, env: Env | None = None) -> str:
        """Run a command that must fail with one clear line and print nothing else; that line."""
        done = self(*words, cwd=cwd, env=env)
        assert done.code == code, done
        assert done.out == "", done
        assert done.err.count("\n") == 1 and done.err.startswith("grass: "), done
        return done.err

    def json(self, *words: Word) -> Any:
        """Run a command with --json; the document it printed."""
        return self.json_of(0, *words)

    def json_of(self, code: int, *words: Word) -> Any:
        """The document a command prints that ends with `code`."""
        done = self(*words, "--json")
        assert done.code == code, done
        return json.loads(done.out)

    def enqueue(self, *words: Word, cwd: Path | None = None, env: Env | None = None) -> int:
        """Submit a job by the command line; its id."""
        printed = self.ok("enqueue", *words, cwd=cwd, env=env)
        match = re.fullmatch(r"job (\d+) .+\n|(\d+)\n", printed)
        assert match, printed
        return int(match[1] or match[2])

    def gated(self, gate: str, *options: Word) -> int:
        """Submit a job that runs until `open_gate`."""
        return self.enqueue(*options, "--", "sh", "-c", 'until [ -e "$0" ]; do sleep 0.02; done', self.cwd / gate)

    def open_gate(self, gate: str) -> None:
        """Let every job behind a gate end."""
        (self.cwd / gate).touch()

    def client(self) -> ApiClient:
        """The daemon's API."""
        return ApiClient(str(self.home))

    def jobs(self, *selectors: str) -> list[Job]:
        """The selected jobs, all without a selector."""
        with self.client() as client:
            found: list[Job] = client.show(selectors or ["all"])["jobs"]
        return found

    def job(self, id_: int) -> Job:
        """One job as it is now."""
        return self.jobs(str(id_))[0]

    def states(self) -> list[str]:
        """The state of every job, in the order of submission."""
        return [job["state"] for job in self.jobs()]

    def until(self, id_: int, *states: str) -> Job:
        """Wait until a job is in one of the states."""

        def reached() -> Job | None:
            job = self.job(id_)
            assert job["state"] in states or job["state"] not in FINAL, job
            # Between the start and the word of it the pid is not known yet.
            return job if job["state"] in states and (job["state"] != "running" or job["pid"]) else None

        return eventually(reached, f"job {id_} {'/'.join(states)}") or {}

    def ended(self, *ids: int) -> list[Job]:
        """Wait for jobs to end, however they do."""
        return [self.until(id_, *FINAL) for id_ in ids]

    def log(self, id_: int) -> str:
        """What a job wrote, by the command line."""
        return self.ok("log", str(id_))

    def run(self, *words: Word, cwd: Path | None = None, env: Env | None = None) -> str:
        """Submit a job that must succeed; what it wrote."""
        id_ = self.enqueue(*words, cwd=cwd, env=env)
        self.until(id_, "succeeded")
        return self.log(id_)

    def queue(self, name: str) -> Job:
        """One queue as `show` has it."""
        with self.client() as client:
            queues: list[Job] = client.show()["queues"]
        return next(queue for queue in queues if queue["name"] == name)

    def nothing_was_stored(self) -> None:
        """After a refused command `show --json` lists no job."""
        assert self.json("show", "all")["jobs"] == []

    def daemon_pid(self) -> int:
        """The pid of the daemon that holds this home's lock."""
        # A daemon that has just taken the lock has not written its pid yet.
        return int(eventually((self.home / "daemon.lock").read_text, "a pid in the lock"))

    def crash(self) -> int:
        """Kill the daemon with SIGKILL; the pid it had."""
        pid = self.daemon_pid()
        end(pid)
        return pid

    def shim_of(self, id_: int) -> int:
        """The pid of the supervisor of a running job: its command's parent."""
        pid = self.until(id_, "running")["pid"]
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def launcher_pid(self) -> int:
        """The pid of the launcher, 0 while there is none."""
        with self.client() as client:
            return int(client.info()["launcher"]["pid"] or 0)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Put a file where commands are typed."""
        path = self.cwd / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def close(self) -> None:
        """End everything of this home; whatever does not leave by itself fails the test."""
        for process in self.foreground:
            if process.poll() is None and "daemon" not in os.fsdecode(b" ".join(process.args)):  # type: ignore[arg-type]
                process.kill()
                process.wait(DEADLINE_S)
        served = self._end_jobs()
        if not served:
            kill_all(processes_of(self.home))
        for process in self.foreground:
            process.communicate(timeout=DEADLINE_S)
        try:
            eventually(lambda: not processes_of(self.home), "processes of a stopped home leave", 15.0)
        except AssertionError:
            left = processes_of(self.home)
            kill_all(left)
            raise AssertionError(f"left behind: {left}") from None

    def _end_jobs(self) -> bool:
        if not (self.home / "grass.sock").exists():
            return False
        try:
            with ApiClient(str(self.home), autostart=False) as client:
                client.kill(["all"], grace_s=0)
                eventually(lambda: client.wait(["all"], timeout_s=5)["done"], "jobs end")
                pid = client.info()["pid"]
                client.stop()
                eventually(lambda: not is_alive(pid), "the daemon stops")
        except GrassError:
            return False
        return True


def kill_all(pids: Iterable[int]) -> None:
    """Kill processes by their own pids."""
    for pid in pids:
        end(pid)
