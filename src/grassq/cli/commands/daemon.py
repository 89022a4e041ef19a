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
from grassq.cli.commands.store import store_url
from grassq.core.syntax.addresses import parse_addresses
from grassq.errors import BadInput, Unreachable
from grassq.net import broker as remote_broker
from grassq.net.autostart import start as start_daemon
from grassq.net.client import ApiClient
from grassq.net.http import Connection, NoDaemon

STOP_TIMEOUT_S = 30.0
PASSWORD_MAX = 4096


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `name`."""
    if name == "daemon":
        _build_daemon(parser)
        return
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document")
    parser.set_defaults(run={"start": start, "stop": stop, "restart": restart}[name])


def _build_daemon(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--capacity", metavar="JSON5", help='what this machine offers, such as "{gpu: 2, cpu: 8}"')
    store = "memory, sqlite:PATH or postgresql://... (default: store.db in the home)"
    parser.add_argument("--store", metavar="URL", help=store)
    parser.add_argument("--bind", metavar="ADDRESS", help="take workers and people from other machines at HOST:PORT")
    parser.add_argument("--no-worker", action="store_true", help="run no jobs here: only a broker")
    parser.add_argument("--no-broker", action="store_true", help="keep no queue here: only a worker of another broker")
    connect = "the broker to work for, several addresses with commas (default: the one that was joined)"
    parser.add_argument("--connect", metavar="ADDRESS", help=connect)
    certificate = "its certificate with key, PKCS#12 or PEM (default: one that is made once and kept)"
    parser.add_argument("--cert", metavar="FILE", help=certificate)
    password = "the password of that file; others can see it in `ps`, better use one of the next"
    parser.add_argument("--cert-pass", metavar="PASSWORD", help=password)
    in_file = "a file with that password in its first line (or set GRASS_CERT_PASS)"
    parser.add_argument("--cert-pass-file", metavar="FILE", help=in_file)
    parser.add_argument("--name", metavar="NAME", help="this machine's name as a worker (default: its host name)")
    labels = "a word that jobs can ask for with --label; repeat for more"
    parser.add_argument("--label", metavar="LABEL", action="append", default=[], help=labels)
    parser.add_argument("--ready-fd", metavar="N", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--detach", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon in this process until it is stopped."""
    _check(arguments)
    store = None if arguments.store is None else store_url(arguments.store)
    directory = home.current()
    connect = _connect(directory, arguments)
    cert = None if arguments.cert is None else str(Path(arguments.cert).absolute())
    cert_pass = _password(arguments)
    _keep_to_ourselves(arguments.ready_fd)
    if arguments.detach:
        _detach()
    from grassq.daemon import run as run_daemon

    return run_daemon(
        home=directory,
        capacity=arguments.capacity,
        store=store,
        bind=arguments.bind,
        connect=connect,
        no_worker=arguments.no_worker,
        no_broker=arguments.no_broker,
        cert=cert,
        cert_pass=cert_pass,
        labels=tuple(arguments.label),
        name=arguments.name,
        ready_fd=arguments.ready_fd,
    )


def _check(arguments: argparse.Namespace) -> None:
    if arguments.bind is not None and arguments.no_broker:
        raise BadInput("--bind opens a broker's address; it cannot go with --no-broker")
    if arguments.connect is not None and arguments.no_worker:
        raise BadInput("--connect makes this machine a worker; it cannot go with --no-worker")
    if arguments.no_broker and arguments.no_worker:
        raise BadInput("--no-broker and --no-worker together leave nothing to run")
    if arguments.no_worker and arguments.bind is None:
        raise BadInput("a broker without a worker of its own needs workers that reach it; add --bind ADDRESS")
    if arguments.connect is not None and not arguments.no_broker:
        raise BadInput("--connect makes this machine a worker of another broker; add --no-broker")
    if arguments.store is not None and arguments.no_broker:
        raise BadInput("--store is where a broker keeps jobs; it cannot go with --no-broker")
    if arguments.cert is not None and arguments.bind is None:
        raise BadInput("--cert is for connections from other machines; add --bind ADDRESS")
    if arguments.cert is None and (arguments.cert_pass is not None or arguments.cert_pass_file is not None):
        raise BadInput("a password for the certificate, but no certificate; add --cert FILE")
    if arguments.cert_pass is not None and arguments.cert_pass_file is not None:
        raise BadInput("give either --cert-pass or --cert-pass-file, not both")


def _connect(directory: str, arguments: argparse.Namespace) -> str | None:
    if not arguments.no_broker:
        return None
    if arguments.connect is not None:
        return ",".join(map(str, parse_addresses(arguments.connect, "--connect")))
    joined = remote_broker.joined(directory)
    if len(joined) != 1:
        known = ", ".join(str(each.addresses[0]) for each in joined)
        which = f"it has joined {known}" if joined else "it has joined none, `grass join CODE` does"
        raise BadInput(
            f"--no-broker needs to know for which broker this machine works ({which}); add --connect ADDRESS"
        )
    return ",".join(map(str, joined[0].addresses))


def _password(arguments: argparse.Namespace) -> str | None:
    from_environment = home.certificate_password()
    if arguments.cert_pass_file is None:
        return from_environment if arguments.cert_pass is None else str(arguments.cert_pass)
    try:
        with Path(arguments.cert_pass_file).open(encoding="utf-8") as file:
            return file.readline(PASSWORD_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"cannot read --cert-pass-file {arguments.cert_pass_file}: {reason}") from error


def start(arguments: argparse.Namespace) -> int:
    """Start the daemon in the background unless it answers already."""
    directory = home.current()
    was_running = _answers(directory)
    if not was_running:
        start_daemon(directory)
    with ApiClient(directory) as client:
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
    with ApiClient(directory, autostart=False) as client:
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
