"""The daemon: builds store, broker, worker and web, joins them, and takes them down again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import logging.handlers
import os
import resource
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from aiohttp import web

from grassq import __version__
from grassq import home as homes
from grassq import settings as settings_module
from grassq.broker.decide import Decider, FromWorker
from grassq.broker.engine import Engine
from grassq.broker.views import moment
from grassq.core.board import Patience
from grassq.core.messages import Hello, Report
from grassq.core.resources import Capacity, parse_limits, parse_request, supply_of
from grassq.errors import BadInput, GrassError, HomeTaken, Refused
from grassq.run import processes
from grassq.run.spared import LOCK_NAME
from grassq.settings import STORE_MEMORY, Settings
from grassq.store.sqlite import MEMORY, SqliteStore
from grassq.web.api import Api
from grassq.web.auth import same_user
from grassq.web.loose import parse_object
from grassq.worker import offers
from grassq.worker.local import LocalWorker, folder_ids

log = logging.getLogger(__name__)

STORE_NAME = "store.db"
MEMORY_PREFIX = "memory."
MEMORY_MARK = "daemon"  # in a directory we made: pid and start ticks of its daemon
LOG_BYTES_MAX = 5 << 20
SHUTDOWN_S = 2.0
PLACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


class SystemClock:
    """The clock of this machine."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def mono(self) -> float:
        """Seconds that only ever grow."""
        return time.monotonic()


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
    ready_fd: int | None = None,
) -> int:
    """Serve a home until told to stop; the exit code of `grass daemon`."""
    try:
        if bind or connect or no_worker or no_broker or cert:
            raise Refused(
                "brokers and workers on other machines are not in this release yet; plain `grass daemon` works"
            )
        flags = {"capacity": capacity, "store": store}
        os.umask(0o077)
        homes.prepare(home)
        values = settings_module.load(home, homes.environment_text(), flags)
        with _place_errors(home):
            _log_to(home, background=ready_fd is not None)
            with _only_one(home):
                return asyncio.run(_serve(home, values, ready_fd))
    except GrassError as error:
        _say(ready_fd, f"taken {error}" if isinstance(error, HomeTaken) else f"error {error.exit_code} {error}")
        if ready_fd is None:
            raise
        return error.exit_code


def _say(ready_fd: int | None, line: str) -> None:
    if ready_fd is not None:
        with contextlib.suppress(OSError):
            os.write(ready_fd, (" ".join(line.split("\n")) + "\n").encode())
            os.close(ready_fd)


def _log_to(home: str, *, background: bool) -> None:
    handler: logging.Handler = logging.StreamHandler()
    if background:
        path = f"{home}/{homes.LOG_NAME}"
        handler = logging.handlers.RotatingFileHandler(path, maxBytes=LOG_BYTES_MAX, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


@contextlib.contextmanager
def _place_errors(home: str) -> Iterator[None]:
    """Say in a sentence that the home's disk is full, read-only or closed to us."""
    try:
        yield
    except OSError as error:
        if error.errno not in PLACE_ERRORS:
            raise
        raise Refused(f"the daemon cannot work in {home}: {error.strerror}") from error


@contextlib.contextmanager
def _only_one(home: str) -> Iterator[None]:
    """Hold the home's lock: taken before socket, store or clean-up, released by the kernel whatever happens."""
    fd = os.open(f"{home}/{LOCK_NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            raise HomeTaken(f"a daemon serves {home} already (pid {first}); `grass stop` ends it") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


async def _serve(home: str, values: Settings, ready_fd: int | None) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    keeps = values.store != STORE_MEMORY
    async with contextlib.AsyncExitStack() as stack:
        place = stack.enter_context(_working_place(home, keeps))
        engine = Engine(lambda: _decider(values, home, place))
        stack.push_async_callback(engine.close)
        worker = _worker(place, values, engine, keeps)
        engine.connect(worker.name, worker.deliver)
        loop_task = asyncio.create_task(engine.run())
        stack.push_async_callback(_cancel, loop_task)
        ticking = await worker.start()
        stack.push_async_callback(worker.close)
        for task in (loop_task, ticking):
            task.add_done_callback(lambda ended: _has_ended(ended, stopping))
        await _listen(stack, home, engine, worker, values, stopping)
        log.info("ready version=%s pid=%s home=%s", __version__, os.getpid(), home)
        _say(ready_fd, "ready")
        await stopping.wait()
        log.info("stopping pid=%s", os.getpid())
        failed = loop_task.done() or ticking.done()
    return 1 if failed else 0


def _has_ended(task: asyncio.Task[None], stopping: asyncio.Event) -> None:
    """Half a daemon serves nobody: it ends whole, its jobs run on, and the next command starts another."""
    if not task.cancelled():
        log.critical("part_failed part=%s", task.get_coro(), exc_info=task.exception())
        stopping.set()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@contextlib.contextmanager
def _working_place(home: str, keeps: bool) -> Iterator[str]:
    """Where run dirs go: the home, or for a store in memory a directory that ends with this process."""
    for left in Path(home).glob(f"{MEMORY_PREFIX}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    if keeps:
        yield home
        return
    pid = os.getpid()
    place = Path(home) / f"{MEMORY_PREFIX}{pid}"
    try:
        place.mkdir(0o700)
    except FileExistsError:
        raise Refused(f"{place} is in the way; move it away") from None
    (place / MEMORY_MARK).write_text(f"{pid} {processes.start_ticks(pid)}\n", encoding="ascii")
    try:
        yield str(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _is_left(place: Path) -> bool:
    """Whether this is what a daemon with its store in memory left: ours by name, owner and mark, and it is gone."""
    number = place.name.removeprefix(MEMORY_PREFIX)
    try:
        status = place.lstat()
        pid, ticks = (int(word) for word in (place / MEMORY_MARK).read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and number.isascii() and number.isdigit()
    return ours and not processes.is_alive(pid, ticks)


def _decider(values: Settings, home: str, place: str) -> Decider:
    patience = Patience(values.passes, values.patience_s)
    floor_id = next(iter(folder_ids(place)), 0)
    return Decider(SqliteStore(_store_path(values.store, home)), SystemClock(), patience=patience, floor_id=floor_id)


def _store_path(store: str, home: str) -> str:
    if store == STORE_MEMORY:
        return MEMORY
    if not store:
        return f"{home}/{STORE_NAME}"
    kind, colon, path = store.partition(":")
    if kind != "sqlite" or not colon or not path.startswith("/"):
        raise BadInput(f"--store {store!r}: write memory, or sqlite:/absolute/path")
    return path


def _worker(place: str, values: Settings, engine: Engine, keeps: bool) -> LocalWorker:
    name = socket.gethostname().partition(".")[0] or "local"
    book = offers.load(place, name) if keeps else offers.Book(name)
    if keeps:
        offers.save(place, book)

    def send(message: Hello | Report) -> None:
        engine.post(FromWorker(book.name, message))

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return LocalWorker(
        place,
        book,
        send,
        store_id=engine.decider.store_id,
        capacity=_capacity(values.capacity),
        keeps=keeps,
        nofile=soft,
    )


def _capacity(text: str) -> Capacity | None:
    if not text:
        return None
    return {name: supply_of(limit) for name, limit in parse_limits(parse_object(text, "--capacity")).items()}


async def _listen(
    stack: contextlib.AsyncExitStack,
    home: str,
    engine: Engine,
    worker: LocalWorker,
    values: Settings,
    stopping: asyncio.Event,
) -> None:
    about = {
        "pid": os.getpid(),
        "home": home,
        "store": _store_path(values.store, home),
        "store_id": engine.decider.store_id,
        "started": moment(time.time()),
        "python": sys.executable,
    }
    default = parse_request(parse_object(values.default_request, "default_request"))
    app = Api(engine, worker, worker, default, stopping.set, about).app()
    app.middlewares.insert(0, same_user)
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_S, access_log=None)
    await runner.setup()
    sock = stack.enter_context(_socket(home))
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, sock, backlog=1024).start()


@contextlib.contextmanager
def _socket(home: str) -> Iterator[socket.socket]:
    """The user's own socket, bound through the opened directory: its path may be longer than a socket's may."""
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    path = Path(f"/proc/self/fd/{folder}/{homes.SOCKET_NAME}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Stale by construction: we hold the home's lock.
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        yield sock
    finally:
        sock.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(folder)
