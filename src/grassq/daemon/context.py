"""What a daemon is started with, and the helpers of both roles."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
from aiohttp import web
from msgspec import Struct

from grassq import atomic_files
from grassq.broker.documents.texts import timestamp
from grassq.configuration import MODE_NAME, read_mode
from grassq.core.model import DiskShortage
from grassq.core.resources.amounts import log_limit, size_bytes
from grassq.core.resources.capacity import Capacity, parse_limits, supply_of
from grassq.core.resources.disk_floor import DiskFloor, parse_floor, shortage
from grassq.core.syntax.durations import duration_s
from grassq.daemon.home_lock import user_socket
from grassq.settings import STORE_MEMORY, Origin, Settings
from grassq.web.listen.tcp import make_runner
from grassq.web.retention import KeepRules
from grassq.web.submit.json5_text import parse_object
from grassq.worker.default_env import DefaultEnvironment

SHUTDOWN_S = 2.0
#: The most connections that wait to be accepted on the unix socket.
BACKLOG = 1024


class SystemClock:
    """The clock of this machine: seconds since the epoch, and seconds that only ever grow."""

    wall = staticmethod(time.time)
    mono = staticmethod(time.monotonic)


class SavedMode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of the daemon's command line, saved in the home for daemons that a command starts."""

    bind: str | None = None
    connect: str | None = None
    no_worker: bool = False
    no_broker: bool = False
    cert: str | None = None
    labels: tuple[str, ...] = ()
    name: str | None = None
    capacity: str | None = None
    store: str | None = None
    #: Stand by although the leader has another key.
    own_key: bool = False

    @property
    def settings(self) -> dict[str, object]:
        """The options that are settings."""
        return {"capacity": self.capacity, "store": self.store}

    @property
    def is_plain(self) -> bool:
        """Whether a start without options does the same: queue and worker on this machine, store in the home."""
        elsewhere = self.store not in (None, STORE_MEMORY)
        return not (self.bind or self.connect or self.no_worker or self.no_broker or self.labels or elsewhere)


class DaemonContext(Struct, frozen=True):
    """Everything from the command line, the settings and the environment."""

    home: str
    mode: SavedMode
    values: Settings
    #: Where each setting comes from.
    origins: Mapping[str, Origin]
    #: What jobs from other machines get instead of their sender's environment.
    default_env: DefaultEnvironment
    stopping: asyncio.Event
    cert_pass: str | None = None
    #: Prints a line on the terminal, or writes it to the log.
    say: Callable[[str], None] = lambda line: None
    #: Called once the daemon answers its user.
    ready: Callable[[], None] = lambda: None
    #: Whether the daemon has no terminal.
    background: bool = False

    @property
    def capacity(self) -> Capacity | None:
        """The capacity that was set; None to detect it."""
        text = self.values.capacity
        if not text:
            return None
        return capacity_of(text)

    @property
    def log_max(self) -> int:
        """The limit of the logs of a job that has none of its own, in bytes; 0 for none."""
        return log_limit(self.values.log_max, "the setting log_max")

    @property
    def keep(self) -> KeepRules:
        """Which ended jobs are removed by themselves."""
        values = self.values
        texts = {"keep": values.keep, "keep_jobs": str(values.keep_jobs or ""), "keep_disk": values.keep_disk}
        words = {name: text.strip() for name, text in texts.items() if text.strip() not in ("", "0", "none")}
        age_s = duration_s(words["keep"], "the setting keep") if "keep" in words else 0.0
        disk = size_bytes(words["keep_disk"], "the setting keep_disk", "50G") if "keep_disk" in words else 0
        return KeepRules(age_s, values.keep_jobs, disk, words)

    @property
    def disk_floor(self) -> DiskFloor:
        """How much of a disk stays free."""
        return parse_floor(self.values.disk_floor)

    def watch_disk(self, path: str) -> Callable[[DiskShortage | None], DiskShortage | None]:
        """Return what tells whether the disk of a folder is short of space, given what it told before."""
        floor = self.disk_floor

        def look(before: DiskShortage | None) -> DiskShortage | None:
            status = os.statvfs(path)
            free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
            return shortage(floor, path, free, total, before)

        return look

    def describe(self, store: str, store_id: str) -> dict[str, object]:
        """Return what `grass doctor` shows of the process."""
        return {
            "pid": os.getpid(),
            "home": self.home,
            "store": store,
            "store_id": store_id,
            "started": timestamp(time.time()),
            "python": sys.executable,
        }


def capacity_of(text: str) -> Capacity:
    """Return a capacity that was typed as JSON5."""
    return {name: supply_of(limit) for name, limit in parse_limits(parse_object(text, "--capacity")).items()}


def load_mode(home: str) -> SavedMode:
    """Return the saved options of this home."""
    return read_mode(home, SavedMode) or SavedMode()


def save_mode(home: str, mode: SavedMode) -> None:
    """Save the options for daemons that a command starts in the background."""
    path = Path(home) / MODE_NAME
    if mode.is_plain:
        path.unlink(missing_ok=True)
        return
    # For the owner only: a store's address may hold a password.
    atomic_files.write_changed(home, MODE_NAME, msgspec.json.encode(mode))


def host_name() -> str:
    """Return the name of a new worker."""
    return socket.gethostname().partition(".")[0] or "local"


def raise_file_limit() -> int:
    """Raise this process's limit of open files to the maximum; return the limit that jobs get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait([task])


async def serve_user(stack: AsyncExitStack, home: str, app: web.Application) -> web.AppRunner:
    """Answer on the socket of the home, until the stack is closed."""
    runner = make_runner(app, SHUTDOWN_S)
    await runner.setup()
    sock = stack.enter_context(user_socket(home))
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, sock, backlog=BACKLOG).start()
    return runner
