"""The daemon: builds store, broker, worker and web, joins them, and takes them down again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from grassq import __version__
from grassq import home as homes
from grassq import settings as settings_module
from grassq.core.urls import is_postgres
from grassq.daemon import place
from grassq.daemon.broker import open_broker
from grassq.daemon.mode import Mode, remembered
from grassq.daemon.setup import Setup
from grassq.daemon.worker import open_worker
from grassq.errors import Deposed, GrassError, HomeTaken, Refused
from grassq.run.spared import LOCK_NAME
from grassq.settings import Settings
from grassq.store.copy import copy
from grassq.worker import surroundings
from grassq.worker.surroundings import Surroundings

log = logging.getLogger(__name__)


def run(
    *,
    home: str,
    capacity: str | None = None,
    store: str | None = None,
    bind: str | None = None,
    connect: str | None = None,
    no_worker: bool = False,
    no_broker: bool = False,
    cert: str | None = None,
    cert_pass: str | None = None,
    labels: tuple[str, ...] = (),
    name: str | None = None,
    ready_fd: int | None = None,
) -> int:
    """Serve a home until told to stop; the exit code of `grass daemon`."""
    background = ready_fd is not None
    try:
        around = surroundings.of_this_process(homes.environment(), background=background)
        os.umask(0o077)
        homes.prepare(home)
        typed = Mode(bind, connect, no_worker, no_broker, cert, labels, name, capacity, store)
        with place.errors_in_words(home):
            place.log_to(home, background=background)
            with place.only_one(home):
                mode = remembered(home, typed, by_itself=background)
                flags = {"capacity": mode.capacity, "store": mode.store}
                values = settings_module.load(home, homes.environment_text(), flags)
                return _serve_for_good(home, mode, values, around, cert_pass, ready_fd)
    except GrassError as error:
        _tell_starter(
            ready_fd, f"taken {error}" if isinstance(error, HomeTaken) else f"error {error.exit_code} {error}"
        )
        if ready_fd is None:
            raise
        return error.exit_code


def copy_store(source: str, target: str, progress: Callable[[int, int], None]) -> int:
    """Copy everything of one store into another, empty one; how many jobs it was. No daemon may use either."""
    with contextlib.ExitStack() as stack:
        for url in {source, target}:
            folder = Path(url.removeprefix("sqlite:")).parent
            if not is_postgres(url) and (folder / LOCK_NAME).exists():
                try:
                    stack.enter_context(place.only_one(str(folder)))
                except HomeTaken:
                    raise Refused(f"a daemon serves {folder}; `grass stop` it first (jobs run on)") from None
        return copy(source, target, progress)


def _serve_for_good(
    home: str, mode: Mode, values: Settings, around: Surroundings, cert_pass: str | None, ready_fd: int | None
) -> int:
    """Serve; a broker whose store another has taken over stands by and may lead again."""
    while True:
        try:
            return asyncio.run(_serve(home, mode, values, around, cert_pass, ready_fd))
        except Deposed as error:
            log.error("deposed %s; this broker stands by now", error)
            ready_fd = None


def _tell_starter(ready_fd: int | None, line: str) -> None:
    if ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(ready_fd, (" ".join(line.split("\n")) + "\n").encode())
            os.close(ready_fd)


def _say(line: str) -> None:
    """Tell whoever sits at the terminal; in the background that is the daemon's log."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"grass: {line}\n".encode("utf-8", "backslashreplace"))


async def _serve(
    home: str, mode: Mode, values: Settings, around: Surroundings, cert_pass: str | None, ready_fd: int | None
) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    setup = Setup(home, mode, values, around, stopping, cert_pass, _say)
    async with contextlib.AsyncExitStack() as stack:
        parts = await (open_worker if mode.no_broker else open_broker)(stack, setup)
        for part in parts:
            part.add_done_callback(lambda ended: _has_ended(ended, stopping))
        if not stopping.is_set():
            log.info("ready version=%s pid=%s home=%s", __version__, os.getpid(), home)
        _tell_starter(ready_fd, "ready")
        await stopping.wait()
        log.info("stopping pid=%s", os.getpid())
        failed = [part for part in parts if part.done()]
    for part in failed:
        if isinstance(part.exception(), Deposed):
            raise Deposed(str(part.exception()))
    return 1 if failed else 0


def _has_ended(task: asyncio.Task[None], stopping: asyncio.Event) -> None:
    """Half a daemon serves nobody: it ends whole, its jobs run on, and the next command starts another."""
    if task.cancelled():
        return
    if not isinstance(task.exception(), Deposed):
        log.critical("part_failed part=%s", task.get_coro(), exc_info=task.exception())
    stopping.set()
