"""daemon, start, stop, restart."""

from __future__ import annotations

import argparse
import os
import select
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from grassq import __version__, home
from grassq.cli import render
from grassq.cli.commands.store import MEMORY, store_url
from grassq.cli.fast import complain, current_home, warn
from grassq.core.syntax.addresses import parse_addresses
from grassq.errors import BadInput, GrassError, Unreachable
from grassq.net import broker as remote_broker
from grassq.net.autostart import start as start_daemon
from grassq.net.client import ApiClient
from grassq.net.http import answers

STOP_TIMEOUT_S = 30.0
PASSWORD_MAX = 4096
#: The states of jobs that need no daemon any more.
FINISHED = ("succeeded", "failed", "cancelled")


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
    own_key = "stand by for another broker on the same store, although that broker has another key"
    parser.add_argument("--own-key", action="store_true", help=own_key)
    password = "the password of the --cert file; visible in `ps`, so prefer --cert-pass-file"
    parser.add_argument("--cert-pass", metavar="PASSWORD", help=password)
    in_file = "a file with the password in its first line"
    parser.add_argument("--cert-pass-file", metavar="FILE", help=in_file)
    parser.add_argument("--name", metavar="NAME", help="this machine's name as a worker (default: its host name)")
    labels = "a label that jobs can request with --label; repeat for more"
    parser.add_argument("--label", metavar="LABEL", action="append", default=[], help=labels)
    saved = "with the options that the daemon of this home had last, as a service starts it"
    parser.add_argument("--saved", action="store_true", help=saved)
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
        own_key=arguments.own_key,
    )
    return run_daemon(directory, mode, cert_pass=cert_pass, ready_fd=arguments.ready_fd, saved=arguments.saved)


def _check(arguments: argparse.Namespace) -> None:
    has = {name: value not in (None, False) for name, value in vars(arguments).items()}
    conflicts = (
        (has["bind"] and has["no_broker"], "--bind is for a broker; it cannot go with --no-broker"),
        (has["connect"] and has["no_worker"], "--connect is for a worker; it cannot go with --no-worker"),
        (has["no_broker"] and has["no_worker"], "--no-broker and --no-worker together leave nothing to run"),
        (
            has["no_worker"] and not has["bind"] and not _has_machines(),
            "a broker with --no-worker needs workers elsewhere; add --bind ADDRESS, or first a machine over ssh with"
            " `grass machine add`",
        ),
        (has["connect"] and not has["no_broker"], "--connect is for a worker of another broker; add --no-broker"),
        (has["store"] and has["no_broker"], "--store is for a broker; it cannot go with --no-broker"),
        (has["own_key"] and not has["bind"], "--own-key is for a broker for other machines; add --bind ADDRESS"),
        (has["cert"] and not has["bind"], "--cert is for connections from other machines; add --bind ADDRESS"),
        (not has["cert"] and (has["cert_pass"] or has["cert_pass_file"]), "the password needs --cert FILE"),
        (
            has["saved"] and any(has[name] for name in ("bind", "connect", "no_worker", "no_broker", "cert", "store")),
            "--saved takes the options that the daemon had last; give no others",
        ),
        (has["cert_pass"] and has["cert_pass_file"], "give either --cert-pass or --cert-pass-file, not both"),
    )
    for is_wrong, message in conflicts:
        if is_wrong:
            raise BadInput(message)


def _has_machines() -> bool:
    from grassq.daemon import has_machines

    return has_machines(current_home())


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


def work_for(directory: str, broker: remote_broker.Credential) -> list[str]:
    """Make this machine's daemon a worker of a broker from now on; return what a user must know, line by line."""
    from grassq.daemon import become_worker, keeps_queue, load_mode

    by_hand = f"grass daemon --no-broker --connect {broker.addresses[0]}"
    mode = load_mode(directory)
    if mode.bind:
        return [f"this machine is a broker for other machines; to work for another broker instead: {by_hand}"]
    info: dict[str, Any] = {}
    if keeps_queue(directory) and not answers(directory):
        start_daemon(directory)  # only the daemon knows whether jobs of this machine's own queue are unfinished
    if answers(directory):
        with ApiClient(directory, autostart=False) as client:
            info = client.info()
    if "broker" in info and info.get("store_id") == broker.store_id:
        return ["the daemon of this machine works for it already"]
    others = [each for each in remote_broker.joined(directory) if each.store_id != broker.store_id]
    if mode.no_broker and others and set((mode.connect or "").split(",")).isdisjoint(map(str, broker.addresses)):
        instead = f"to work for this broker instead: `grass stop`, then `{by_hand}`"
        return [f"this machine works for {mode.connect}; {instead}"]
    unfinished = sum(count for state, count in info.get("jobs", {}).items() if state not in FINISHED)
    if unfinished:
        jobs = f"{unfinished} unfinished {'job' if unfinished == 1 else 'jobs'}"
        return [f"this machine's own queue has {jobs}; when they have ended: `grass stop`, then `{by_hand}`"]
    taken = become_worker(directory, broker)
    if info:
        stop_daemon(directory)
        _start(directory)
    how = "the daemon works for it now" if info else f"to work for it: grass start, or in a terminal: {by_hand}"
    return [how, *([f"it offers this machine's queues: {', '.join(taken)}"] if taken else [])]


def start(arguments: argparse.Namespace) -> int:
    """Start the daemon in the background, unless one answers."""
    directory = current_home()
    was_running = answers(directory)
    if not was_running:
        _start(directory)
    with ApiClient(directory) as client:
        info = client.info()
    warn(client.headers)
    sentence = f"daemon started (pid {info.get('pid')})"
    if was_running:
        sentence = f"the daemon already runs (pid {info.get('pid')}, version {info.get('version')})"
    return render.outcome(arguments.json, {"started": not was_running, **info}, sentence)


def _start(directory: str) -> None:
    """Start the daemon by its service if it has one, else by itself."""
    from grassq.cli.service.install import start_by_service
    from grassq.cli.service.unit import here

    try:
        if start_by_service(here(directory)):
            return
    except GrassError as error:
        complain(f"the daemon is started without its service: {error}")
    start_daemon(directory)


def stop(arguments: argparse.Namespace) -> int:
    """End the daemon; jobs run on."""
    stopped = stop_daemon(current_home())
    if stopped is None:
        return render.outcome(arguments.json, {"stopped": False, "running": 0}, "no daemon runs")
    count = stopped.running
    jobs = "no job runs" if not count else f"{count} running {'job goes' if count == 1 else 'jobs go'} on"
    sentence = f"{jobs}. The next local command starts it again; to start no new jobs, use `grass pause`."
    if stopped.in_memory:
        ended = f" ({count} {'was' if count == 1 else 'were'} running and {'is' if count == 1 else 'are'} ended)"
        sentence = f"its store was in memory, so all its jobs are gone{ended if count else ''}"
    answer: dict[str, object] = {"stopped": True, "running": count, "in_memory": stopped.in_memory}
    return render.outcome(arguments.json, answer, f"daemon stopped; {sentence}")


def restart(arguments: argparse.Namespace) -> int:
    """End the daemon and start it again; jobs keep running."""
    directory = current_home()
    stopped = stop_daemon(directory)
    _start(directory)
    running = stopped.running if stopped else 0
    jobs = f"; {running} {'job' if running == 1 else 'jobs'} kept running" if running else ""
    if stopped and stopped.in_memory:
        jobs = "; its store was in memory, so all earlier jobs are gone"
    answer = {"restarted": True, "running": running, "version": __version__}
    return render.outcome(arguments.json, answer, f"daemon restarted (version {__version__}){jobs}")


class StoppedDaemon(NamedTuple):
    """A daemon that was stopped."""

    #: How many of its jobs were running.
    running: int
    #: Its jobs ended with it.
    in_memory: bool


def stop_daemon(directory: str) -> StoppedDaemon | None:
    """End the daemon of a home and wait for its end; return None if none runs. Jobs run on."""
    if not answers(directory):
        return None
    with ApiClient(directory, autostart=False) as client:
        info = client.info()
        pid = info.get("pid")
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
    return StoppedDaemon(running, info.get("store") == MEMORY)


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
