"""Start and stop of a daemon, in the role that its options name."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from grassq import __version__
from grassq import home as homes
from grassq import settings as settings_module
from grassq.core.syntax.store_urls import is_postgres
from grassq.daemon import home_lock
from grassq.daemon.broker_role import open_broker
from grassq.daemon.context import DaemonContext, SavedMode, load_mode, save_mode
from grassq.daemon.log_file import open_log
from grassq.daemon.worker_role import open_worker
from grassq.errors import Deposed, GrassError, HomeTaken, Refused
from grassq.store.copy import copy
from grassq.worker import default_env as default_envs

log = logging.getLogger(__name__)


def run(
    home: str, typed: SavedMode, *, cert_pass: str | None = None, ready_fd: int | None = None, saved: bool = False
) -> int:
    """Serve a home until told to stop; return the exit code of `grass daemon`.

    With `saved`, a service starts it: with the saved options, in the background, and a daemon that is there already is
    no failure, after which the service would try again and again.
    """
    background = saved or ready_fd is not None
    try:
        default_env = default_envs.of_this_process(homes.environment(), background=background)
        os.umask(0o077)
        homes.prepare(home)
        with home_lock.errors_in_words(home):
            log_file = Path(home) / homes.LOG_NAME if background else None
            logging.basicConfig(level=logging.INFO, handlers=[open_log(log_file)], force=True)
            with home_lock.hold_lock(home):
                mode = load_mode(home) if background and typed == SavedMode() else typed
                values, origins = settings_module.trace(home, homes.environment_text(), mode.settings)
                setup = DaemonContext(
                    home, mode, values, origins, default_env, asyncio.Event(), cert_pass, _say, background=background
                )
                return _serve_or_stand_by(setup, ready_fd)
    except GrassError as error:
        _tell_starter(
            ready_fd, f"taken {error}" if isinstance(error, HomeTaken) else f"error {error.exit_code} {error}"
        )
        if saved and isinstance(error, HomeTaken):
            sys.stderr.write(f"grass: {error}\n")
            return 0
        if ready_fd is None:
            raise
        return error.exit_code


def copy_store(source: str, target: str, progress: Callable[[int, int], None]) -> int:
    """Copy a store into another, empty one; return the number of jobs. No daemon may use either store."""
    # A store holds environments, so only its owner may read it.
    os.umask(0o077)
    with contextlib.ExitStack() as stack:
        files = [Path(url.removeprefix("sqlite:")) for url in (source, target) if not is_postgres(url)]
        for folder in {file.parent for file in files}:
            if (folder / home_lock.LOCK_NAME).exists():
                try:
                    stack.enter_context(home_lock.hold_lock(str(folder)))
                except HomeTaken:
                    raise Refused(f"a daemon serves {folder}; `grass stop` it first (jobs keep running)") from None
        return copy(source, target, progress)


def _serve_or_stand_by(setup: DaemonContext, ready_fd: int | None) -> int:
    """Serve; when another broker takes the store over, stand by to lead again."""
    while True:
        try:
            return asyncio.run(_serve(setup, ready_fd))
        except Deposed as error:
            log.error("deposed %s; this broker stands by now", error)
            setup, ready_fd = replace(setup, stopping=asyncio.Event()), None


class _Ready:
    """Saves the options and tells the starter, once."""

    def __init__(self, setup: DaemonContext, ready_fd: int | None) -> None:
        self._setup = setup
        self._ready_fd = ready_fd
        self._is_told = False

    def __call__(self) -> None:
        """Say that the daemon answers its user now."""
        if self._is_told:
            return
        self._is_told = True
        if not self._setup.stopping.is_set():
            # Saved only now: a daemon that cannot start must not leave options for the next start.
            save_mode(self._setup.home, self._setup.mode)
            log.info("ready version=%s pid=%s home=%s", __version__, os.getpid(), self._setup.home)
        _tell_starter(self._ready_fd, "ready")


def _tell_starter(ready_fd: int | None, line: str) -> None:
    if ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(ready_fd, (" ".join(line.split("\n")) + "\n").encode())
            os.close(ready_fd)


def _say(line: str) -> None:
    """Print a line on the terminal; in the background stdout is the daemon's log."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"grass: {line}\n".encode("utf-8", "backslashreplace"))


async def _serve(setup: DaemonContext, ready_fd: int | None) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, setup.stopping.set)
    setup = replace(setup, ready=_Ready(setup, ready_fd))
    async with contextlib.AsyncExitStack() as stack:
        parts = await (open_worker if setup.mode.no_broker else open_broker)(stack, setup)
        for part in parts:
            part.add_done_callback(lambda ended: _part_ended(ended, setup.stopping))
        setup.ready()
        await setup.stopping.wait()
        log.info("stopping pid=%s", os.getpid())
        failed = [part for part in parts if part.done()]
    for part in failed:
        if isinstance(part.exception(), Deposed):
            raise Deposed(str(part.exception()))
    return 1 if failed else 0


def _part_ended(task: asyncio.Task[None], stopping: asyncio.Event) -> None:
    """Stop the daemon when one of its parts has failed: jobs run on, and the next command starts a new daemon."""
    if task.cancelled():
        return
    if not isinstance(task.exception(), Deposed):
        log.critical("part_failed part=%s", task.get_coro(), exc_info=task.exception())
    stopping.set()
