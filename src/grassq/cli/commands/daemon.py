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
from grassq.cli.fast import current_home, warn
from grassq.core.syntax.addresses import parse_addresses
from grassq.errors import BadInput, Unreachable
from grassq.net import broker as remote_broker
from grassq.net.autostart import start as start_daemon
from grassq.net.client import ApiClient
from grassq.net.http import answers

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
    parser.add_argument("--bind", metavar="ADDRESS", help="accept workers and users from other machines at HOST:PORT")
    parser.add_argument("--no-worker", action="store_true", help="run no jobs on this machine, only a broker")
    parser.add_argument(
        "--no-broker", action="store_true", help="run no broker on this machine, only a worker of another broker"
    )
    connect = "the broker to work for; several addresses with commas (default: the broker of `grass join`)"
    parser.add_argument("--connect", metavar="ADDRESS", help=connect)
    certificate = "certificate and key of the broker, PKCS#12 or PEM (default: created once and kept)"
    parser.add_argument("--cert", metavar="FILE", help=certificate)
    password = "the password of the --cert file; visible in `ps`, so prefer --cert-pass-file or GRASS_CERT_PASS"
    parser.add_argument("--cert-pass", metavar="PASSWORD", help=password)
    in_file = "a file with the password in its first line"
    parser.add_argument("--cert-pass-file", metavar="FILE", help=in_file)
    parser.add_argument("--name", metavar="NAME", help="this machine's name as a worker (default: its host name)")
    labels = "a label that jobs can request with --label; repeat for more"
    parser.add_argument("--label", metavar="LABEL", action="append", default=[], help=labels)
    parser.add_argument("--ready-fd", metavar="N", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--detach", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the daemon in this process until it is stopped."""
    _check(arguments)
    store = None if arguments.store is None else store_url(arguments.store)
    directory = current_home()
    connect = _connect(directory, arguments)
    cert = None if arguments.cert is None else str(Path(arguments.cert).absolute())
    cert_pass = _password(arguments)
    _close_on_exec(arguments.ready_fd)
    if arguments.detach:
        _detach()
    from grassq.daemon import SavedMode
    from grassq.daemon import run as run_daemon

    mode = SavedMode(
        bind=arguments.bind,
        connect=connect,
        no_worker=arguments.no_worker,
        no_broker=arguments.no_broker,
        cert=cert,
        labels=tuple(arguments.label),
        name=arguments.name,
        capacity=arguments.capacity,
        store=store,
    )
    return run_daemon(directory, mode, cert_pass=cert_pass, ready_fd=arguments.ready_fd)


def _check(arguments: argparse.Namespace) -> None:
    has = {name: value not in (None, False) for name, value in vars(arguments).items()}
    conflicts = (
        (has["bind"] and has["no_broker"], "--bind is for a broker; it cannot go with --no-broker"),
        (has["connect"] and has["no_worker"], "--connect is for a worker; it cannot go with --no-worker"),
        (has["no_broker"] and has["no_worker"], "--no-broker and --no-worker together leave nothing to run"),
        (has["no_worker"] and not has["bind"], "a broker with --no-worker needs workers elsewhere; add --bind ADDRESS"),
        (has["connect"] and not has["no_broker"], "--connect is for a worker of another broker; add --no-broker"),
        (has["store"] and has["no_broker"], "--store is for a broker; it cannot go with --no-broker"),
        (has["cert"] and not has["bind"], "--cert is for connections from other machines; add --bind ADDRESS"),
        (not has["cert"] and (has["cert_pass"] or has["cert_pass_file"]), "the password needs --cert FILE"),
        (has["cert_pass"] and has["cert_pass_file"], "give either --cert-pass or --cert-pass-file, not both"),
    )
    for is_wrong, message in conflicts:
        if is_wrong:
            raise BadInput(message)


def _connect(directory: str, arguments: argparse.Namespace) -> str | None:
    if not arguments.no_broker:
        return None
    if arguments.connect is not None:
        return ",".join(map(str, parse_addresses(arguments.connect, "--connect")))
    joined = remote_broker.joined(directory)
    if len(joined) != 1:
        known = ", ".join(str(each.addresses[0]) for each in joined)
        which = f"this machine has joined {known}" if joined else "this machine has joined none; see `grass join`"
        raise BadInput(f"--no-broker needs the address of one broker ({which}); add --connect ADDRESS")
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
    """Start the daemon in the background, unless one answers."""
    directory = current_home()
    was_running = answers(directory)
    if not was_running:
        start_daemon(directory)
    with ApiClient(directory) as client:
        info = client.info()
    warn(client.headers)
    sentence = f"daemon started (pid {info.get('pid')})"
    if was_running:
        sentence = f"the daemon already runs (pid {info.get('pid')}, version {info.get('version')})"
    return render.outcome(arguments.json, {"started": not was_running, **info}, sentence)


def stop(arguments: argparse.Namespace) -> int:
    """End the daemon; jobs run on."""
    directory = current_home()
    running = _stop(directory)
    jobs = "no job runs" if not running else f"{running} running {'job goes' if running == 1 else 'jobs go'} on"
    again = "The next local command starts it again; to start no new jobs, use `grass pause`."
    sentence = "no daemon runs" if running is None else f"daemon stopped; {jobs}. {again}"
    return render.outcome(arguments.json, {"stopped": running is not None, "running": running or 0}, sentence)


def restart(arguments: argparse.Namespace) -> int:
    """End the daemon and start it again; jobs run on."""
    directory = current_home()
    running = _stop(directory)
    start_daemon(directory)
    jobs = f"; {running} {'job' if running == 1 else 'jobs'} ran on" if running else ""
    answer = {"restarted": True, "running": running or 0, "version": __version__}
    return render.outcome(arguments.json, answer, f"daemon restarted (version {__version__}){jobs}")


def _stop(directory: str) -> int | None:
    if not answers(directory):
        return None
    with ApiClient(directory, autostart=False) as client:
        pid = client.info().get("pid")
        # Opened while the daemon answers, so the pid cannot belong to another process yet.
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
            if not answers(directory):
                return
            sleep(0.02)
    raise Unreachable(
        f"the daemon confirmed the stop but still runs after {STOP_TIMEOUT_S:g} s; see {directory}/daemon.log"
    )


def _close_on_exec(ready_fd: int | None) -> None:
    # The reader of this pipe waits until every copy is closed, so child processes must not inherit it.
    if ready_fd is None:
        return
    try:
        os.set_inheritable(ready_fd, False)
    except (OSError, OverflowError, ValueError) as error:
        raise BadInput(f"--ready-fd {ready_fd} is not an open descriptor") from error


def _detach() -> None:
    # The starting command waits for this process only; the forked daemon becomes a child of init.
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    with suppress(OSError):
        # Few users may lower the niceness; without the right, jobs inherit that of the starting command.
        os.setpriority(os.PRIO_PROCESS, 0, 0)
