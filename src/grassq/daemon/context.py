"""What a daemon is started with, and the small things that every kind of daemon needs."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack

from aiohttp import web
from msgspec import Struct

from grassq.broker.views import timestamp
from grassq.core.resources.capacity import Capacity, parse_limits, supply_of
from grassq.daemon.home_lock import user_socket
from grassq.daemon.saved_mode import SavedMode
from grassq.settings import Settings
from grassq.web.listen.tcp import make_runner
from grassq.web.submit.json5_text import parse_object
from grassq.worker.default_env import DefaultEnvironment

SHUTDOWN_S = 2.0
#: How many connections may wait on the user's own socket.
BACKLOG = 1024


class SystemClock:
    """The clock of this machine."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def mono(self) -> float:
        """Seconds that only ever grow."""
        return time.monotonic()


class DaemonContext(Struct, frozen=True):
    """Everything said on the command line, in the settings and by the surroundings."""

    home: str
    mode: SavedMode
    values: Settings
    #: What jobs from other machines are given instead of their sender's surroundings.
    default_env: DefaultEnvironment
    stopping: asyncio.Event
    cert_pass: str | None = None
    #: Tells something to whoever sits at the terminal, or writes it to the log.
    say: Callable[[str], None] = lambda line: None
    #: Nobody sits at a terminal.
    background: bool = False

    @property
    def capacity(self) -> Capacity | None:
        """What the machine was said to have; None to look for it."""
        text = self.values.capacity
        if not text:
            return None
        return {name: supply_of(limit) for name, limit in parse_limits(parse_object(text, "--capacity")).items()}

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


def host_name() -> str:
    """What a new worker is called."""
    return socket.gethostname().partition(".")[0] or "local"


def raise_file_limit() -> int:
    """Let this process open as many files as it may; the limit its jobs are to have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


async def cancel(task: asyncio.Task[None]) -> None:
    """End a task and wait until it has."""
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
