"""daemon, start, stop, restart."""

from __future__ import annotations

import argparse
import os
import select
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from grassq import __version__, home
from grassq.cli import render
from grassq.errors import BadInput, Refused, Unreachable
from grassq.net.client import Client
from grassq.net.http import Connection, NoDaemon
from grassq.net.start import start as start_daemon

STOP_TIMEOUT_S = 30.0


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    if name == "daemon":
        _build_daemon(parser)
        return
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.set_defaults(run={"start": start, "stop": stop, "restart": restart}[name])


def _build_daemon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--capacity", metavar="JSON5", help='what this machine offers, such as "{gpu: 2, cpu: 8}"')
    parser.add_argument("--store", metavar="URL", help="memory, or sqlite:PATH (default: store.db in the home)")
    parser.add_argument("--bind", metavar="ADDRESS", help="the broker's address (not in this release yet)")
    parser.add_argument("--connect", metavar="ADDRESS", help="the broker to work for (not in this release yet)")
    parser.add_argument("--no-worker", action="store_true", help="run no jobs here (not in this release yet)")
    parser.add_argument("--no-broker", action="store_true", help="keep no queue here (not in this release yet)")
    parser.add_argument("--cert", metavar="FILE", help="the broker's certificate (not in this release yet)")
    parser.add_argument("--ready-fd", metavar="N", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--detach", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon in this process until it is stopped."""
    if arguments.bind is not None and arguments.no_broker:
        raise BadInput("--bind opens a broker's address; it makes no sense with --no-broker")
    if arguments.connect is not None and arguments.no_worker:
        raise BadInput("--connect makes this machine a worker; it makes no sense with --no-worker")
    if arguments.no_broker and arguments.no_worker:
        raise BadInput("--no-broker and --no-worker together leave nothing to run")
    store = _store(arguments.store)
    _keep_to_ourselves(arguments.ready_fd)
    if arguments.detach:
        _detach()
    directory = home.current()
    from grassq.daemon import run as run_daemon

    return run_daemon(
        home=directory,
        capacity=arguments.capacity,
        store=store,
        bind=arguments.bind,
        connect=arguments.connect,
        no_worker=arguments.no_worker,
        no_broker=arguments.no_broker,
        cert=arguments.cert,
        ready_fd=arguments.ready_fd,
    )


def start(arguments: argparse.Namespace) -> int:
    """Start the daemon in the background unless it answers already."""
    directory = home.current()
    was_running = _answers(directory)
    if not was_running:
        start_daemon(directory)
    with Client(directory) as client:
        info = client.info()
    if arguments.json:
        return render.document({"started": not was_running, **info})
    if was_running:
        return render.line(f"the daemon already runs (pid {info.get('pid')}, version {info.get('version')})")
    return render.line(f"daemon started (pid {info.get('pid')})")


def stop(arguments: argparse.Namespace) -> int:
    """End the daemon; jobs run on."""
    directory = home.current()
    running = _stop(directory)
    if arguments.json:
        return render.document({"stopped": running is not None, "running": running or 0})
    if running is None:
        return render.line("no daemon runs")
    jobs = "no job runs" if not running else f"{running} running {'job runs' if running == 1 else 'jobs run'} on"
    return render.line(
        f"daemon stopped; {jobs}. The next local command resumes the queue; `grass pause` is what stops work."
    )


def restart(arguments: argparse.Namespace) -> int:
    """End the daemon and start it again; jobs run on."""
    directory = home.current()
    running = _stop(directory)
    start_daemon(directory)
    if arguments.json:
        return render.document({"restarted": True, "running": running or 0, "version": __version__})
    return render.line(
        f"daemon restarted (version {__version__})"
        + (f"; {running} {'job' if running == 1 else 'jobs'} ran on" if running else "")
    )


def _answers(directory: str) -> bool:
    try:
        Connection(directory).close()
    except NoDaemon:
        return False
    return True


def _stop(directory: str) -> int | None:
    if not _answers(directory):
        return None
    with Client(directory, autostart=False) as client:
        pid = client.info().get("pid")
        # Opened while it surely lives, so the number cannot have passed to another process.
        try:
            process = os.pidfd_open(int(pid)) if pid else -1
        except OSError:
            process = -1
        try:
            running = int(client.stop().get("running", 0))
            _await_end(directory, process)
        finally:
            if process >= 0:
                os.close(process)
    return running


def _await_end(directory: str, process: int) -> None:
    if process >= 0:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if poll.poll(STOP_TIMEOUT_S * 1000):
            return
    else:
        deadline = monotonic() + STOP_TIMEOUT_S
        while monotonic() < deadline:
            if not _answers(directory):
                return
            sleep(0.02)
    raise Unreachable(
        f"the daemon said it stops but has not ended after {STOP_TIMEOUT_S:g} s; see {directory}/daemon.log"
    )


def _store(text: str | None) -> str | None:
    if text is None or text == "memory" or (text.startswith("sqlite:") and text != "sqlite:"):
        # Made absolute now: a detached daemon stands in "/".
        return text if text in (None, "memory") else f"sqlite:{Path(text.removeprefix('sqlite:')).absolute()}"
    if text.startswith("postgres"):
        raise Refused("a Postgres store is not in this release yet; --store takes memory or sqlite:PATH")
    raise BadInput(f"--store takes memory or sqlite:PATH, not '{text}'")


def _keep_to_ourselves(ready_fd: int | None) -> None:
    # Whoever waits at the other end waits until the last holder lets go: no child of ours may be one.
    if ready_fd is None:
        return
    try:
        os.set_inheritable(ready_fd, False)
    except (OSError, OverflowError, ValueError) as error:
        raise BadInput(f"--ready-fd {ready_fd} is not an open descriptor") from error


def _detach() -> None:
    # The one that started us waits for this process alone: the daemon becomes a child of init, whoever started it.
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    with suppress(OSError):
        # Lowering it again is allowed to few; then jobs run as nicely as the command that started the daemon.
        os.setpriority(os.PRIO_PROCESS, 0, 0)
