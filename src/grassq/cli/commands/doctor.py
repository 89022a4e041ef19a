"""doctor: checks of this machine, each with advice."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from grassq import __version__, home
from grassq.cli import job_text, render
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, GrassError
from grassq.net import broker as remote_broker
from grassq.net import broker_file
from grassq.net.client import ApiClient
from grassq.net.http import Connection, NoDaemon

DISK_LOW_BYTES = 1 << 30
DISK_OUT_BYTES = 64 << 20
INODES_LOW = 10_000
FILES_LOW = 1024
PROCESSES_LOW = 512
TOOL_TIMEOUT_S = 5.0
STRAYS_SHOWN = 20
#: The files of a home that may name a store elsewhere.
STORE_NAMED_IN = ("grass.toml", "mode.json")

#: (ok | warn | fail, what was checked, what was found, what to do)
Finding = tuple[str, str, str, str]
INITS = {"systemd", "init", "openrc-init", "runit", "s6-svscan", "launchd"}


def build(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print the findings as a JSON document")
    parser.set_defaults(run=doctor)


def doctor(arguments: argparse.Namespace) -> int:
    """Run every check and print the findings."""
    strays: list[dict[str, Any]] = []
    findings = list(_examine(strays))
    if arguments.json:
        keys = ("status", "check", "found", "advice")
        checks = [dict(zip(keys, finding, strict=True)) for finding in findings]
        render.document({"checks": checks, "strays": strays})
    else:
        for status, check, found, advice in findings:
            render.line(f"{status:<5}{check}: {found}")
            if advice:
                render.line(f"     -> {advice}")
    return EXIT_JOB_FAILED if any(status == "fail" for status, *_ in findings) else EXIT_OK


def _examine(strays: list[dict[str, Any]]) -> Iterator[Finding]:
    """Yield every finding, and add the run dirs without a stored job to `strays`."""
    try:
        directory = home.current()
    except GrassError as error:
        yield "fail", "home", str(error), "set GRASS_HOME to a directory on a local disk"
        return
    for check in (_home, _space, partial(_daemon, strays), _broker, _reboot):
        yield from check(directory)
    for examine in (_path, _login, _container, _limits, _kernel):
        yield from examine()


def _home(directory: str) -> Iterator[Finding]:
    try:
        home.prepare(directory)
    except GrassError as error:
        yield "fail", "home", str(error), ""
        return
    if home.is_guessed():
        found = f"HOME is not set, so the home is {directory}, by the password database"
        yield "warn", "home", found, "set HOME or GRASS_HOME, else a command with another environment has another queue"
    kind = home.file_system(directory)
    if kind in home.NETWORK_FILE_SYSTEMS:
        yield "fail", "home", f"{directory} is on {kind}", "set GRASS_HOME to a directory on a local disk"
    elif kind in ("tmpfs", "ramfs"):
        yield "warn", "home", f"{directory} is in memory ({kind})", "jobs and logs are gone after a reboot"
    elif directory == home.stand_in():
        yield "ok", "home", f"{directory} (the usual place is on a network file system)", ""
    else:
        yield "ok", "home", f"{directory} ({kind or 'unknown file system'})", ""


def _space(directory: str) -> Iterator[Finding]:
    try:
        status = os.statvfs(directory)
    except OSError as error:
        yield "warn", "disk", f"cannot be measured: {error.strerror}", ""
        return
    free = status.f_bavail * status.f_frsize
    advice = "free some space; `grass clean --older 7d` removes old jobs and their logs"
    level = "fail" if free < DISK_OUT_BYTES else "warn" if free < DISK_LOW_BYTES else "ok"
    yield level, "disk", f"{free / (1 << 30):.1f} GiB free", "" if level == "ok" else advice
    # Some file systems create inodes on demand and report 0 of 0.
    if status.f_files and status.f_favail < INODES_LOW:
        yield "fail" if not status.f_favail else "warn", "inodes", f"{status.f_favail} free", advice


def _daemon(strays: list[dict[str, Any]], directory: str) -> Iterator[Finding]:
    try:
        Connection(directory).close()
        with ApiClient(directory, autostart=False) as client:
            info = client.info()
            # A worker's daemon keeps no queue, and its broker may be unreachable.
            shown = {} if "broker" in info or "stands_by" in info else client.show()
    except NoDaemon:
        if _is_worker(directory):
            yield "warn", "daemon", "none runs, so this machine gets no jobs from its broker", "`grass start`"
        else:
            yield "ok", "daemon", "none runs; the next local command starts it", ""
            yield from _store_file(directory)
        return
    except GrassError as error:
        yield "fail", "daemon", str(error), f"see {directory}/daemon.log; `grass restart` (jobs keep running)"
        return
    version = info.get("version")
    if version == __version__:
        where = f"store {info['store']}" if info.get("store") else "only a worker"
        yield "ok", "daemon", f"pid {info.get('pid')}, version {version}, {where}", ""
    else:
        advice = "`grass restart` (jobs keep running)"
        yield "warn", "daemon", f"version {version}, this command is {__version__}", advice
    if standing := info.get("stands_by"):
        yield "ok", "daemon", f"stands by: the broker on {standing.get('leader')} leads {standing.get('store')}", ""
        if standing.get("trouble"):
            yield "fail", "certificate", str(standing["trouble"]), ""
    if info.get("read_only"):
        yield "fail", "store", f"read-only: {info['read_only']}", "fix the cause; the daemon tries again by itself"
    if waited_for := shown.get("restored"):
        found = f"restored from a backup; nothing starts until these workers connect: {', '.join(waited_for)}"
        yield "fail", "store", found, "start them, or `grass resume --restored` to go on without them"
    if lost := info.get("lost_jobs"):
        some = "1 job has a folder" if lost == 1 else f"{lost} jobs have folders"
        found = f"{some} in {directory}/jobs and no record in the store: it is new, older or another"
        advice = "`grass stop` and put the right store back, or submit them again; `grass resume --restored` goes on"
        yield "fail", "store", found, advice
    strays += info.get("strays") or []
    yield from _strays(strays)
    if "broker" in info:
        yield _link(info["broker"])
    yield from _page(info.get("page"))
    yield from _devices(bool(info.get("detecting")), shown.get("workers") or [], version)


def _page(page: object) -> Iterator[Finding]:
    """Tell whether the web page is open, and whether it is part of this installation."""
    if not isinstance(page, dict):
        return
    port, wanted = page.get("port"), page.get("remembered")
    if port is not None:
        yield "ok", "page", f"open at http://127.0.0.1:{port}/", ""
    elif wanted is not None:
        yield "warn", "page", f"port {wanted} is taken by another program", "`grass web` opens the page at another port"
    else:
        yield "ok", "page", "not open; `grass web` opens it", ""
    if not page.get("is_built"):
        advice = "install Node.js with npm, then install Grass again; everything else works without"
        yield "ok", "page", "not part of this installation", advice


def _store_file(directory: str) -> Iterator[Finding]:
    """Warn of a store that is gone while no daemon runs: the next daemon would make a new one."""
    store, jobs = Path(directory, "store.db"), Path(directory, "jobs")
    if home.environment_text().get("GRASS_STORE") or any(Path(directory, name).exists() for name in STORE_NAMED_IN):
        return  # the store may be elsewhere
    if not (store.exists() and store.stat().st_size) and jobs.is_dir() and any(jobs.iterdir()):
        found = f"{store} is gone or empty, but {jobs} has folders of jobs"
        yield "fail", "store", found, "put the store back before the next command makes a new one"


def _strays(strays: list[dict[str, Any]]) -> Iterator[Finding]:
    for stray in strays[:STRAYS_SHOWN]:
        about = [str(stray.get("why"))]
        if "command" in stray:
            about += [_state_of(stray), f"`{stray['command']}` in {stray['cwd']}", *map("log {}".format, stray["logs"])]
        again = f"`{stray['again']}` submits it again; " if stray.get("again") else "look at it; "
        then = "let it end first" if stray.get("state") == "running" else "remove the folder if it is not needed"
        yield "warn", "stray", f"{stray.get('path')}: {'; '.join(about)}", again + then
    if len(strays) > STRAYS_SHOWN:
        yield "warn", "stray", f"and {len(strays) - STRAYS_SHOWN} more; `grass doctor --json` lists them", ""


def _state_of(stray: dict[str, Any]) -> str:
    """Return in words what became of an attempt without a stored job."""
    match stray.get("state"):
        case "running":
            return f"it still runs (pid {stray.get('pid')})"
        case "ended" if stray.get("exit_code") is not None:
            return f"ended with exit {stray['exit_code']}"
        case "ended" if stray.get("signal") is not None:
            return f"ended by signal {stray['signal']}"
        case state:
            return f"it is {state}" if state != "ended" else "ended"


def _is_worker(directory: str) -> bool:
    try:
        return bool(remote_broker.joined(directory))
    except GrassError:
        return False  # `_broker` reports the error


def _link(link: dict[str, object]) -> Finding:
    """Return the finding about a worker's connection to its broker."""
    if link.get("online"):
        return "ok", "link", f"connected to the broker at {link.get('address')}", ""
    words = f"not connected: {link.get('trouble')}"
    if link.get("refused"):
        return "fail", "link", words, "jobs keep running; the daemon keeps trying, but the cause must be fixed"
    return "warn", "link", words, "jobs keep running; the daemon reconnects by itself"


def _broker(directory: str) -> Iterator[Finding]:
    try:
        known, chosen = broker_file.load(directory).entries, home.broker(directory)
    except GrassError as error:
        yield "fail", "brokers", str(error), ""
        return
    if chosen is not None:
        yield "ok", "broker", f"commands go to {chosen} ({home.broker_named_by(directory)})", ""
        if any(entry.login is not None for entry in known):
            yield from _reached(directory, chosen)
    for entry in known:
        rights = [f"{right.name} ({right.scope})" for right in (entry.login, entry.worker) if right is not None]
        yield "ok", "broker", f"{entry.addresses[0]}: this machine has tokens as {' and '.join(rights)}", ""


def _reached(directory: str, broker: str) -> Iterator[Finding]:
    """Connect once to the broker that commands go to, and check its key."""
    try:
        Connection(remote_broker.open_broker(directory, broker)).close()
    except NoDaemon as error:
        yield "warn", "broker", f"does not answer: {error}", "commands try again for 30 s"
    except GrassError as error:
        yield "fail", "broker", str(error), ""


def _devices(detecting: bool, workers: list[dict[str, object]], version: object) -> Iterator[Finding]:
    if detecting:
        yield "ok", "devices", "still being detected", ""
    for worker in workers:
        capacity = worker.get("capacity")
        words = job_text.holds(capacity if isinstance(capacity, dict) else {})
        if worker.get("online"):
            yield "ok", f"worker {worker.get('name')}", words or "nothing", ""
        else:
            advice = "its jobs keep running; if the machine is lost for good: `grass remove NAME --lost`"
            yield "warn", f"worker {worker.get('name')}", f"silent since {worker.get('since')}", advice
        drained = worker.get("drained_devices")
        for kind, ids in (drained if isinstance(drained, dict) else {}).items():
            names = ", ".join(map(str, ids))
            which = f"{' '.join(map(str, ids))} --worker {worker.get('name')} --resource {kind}"
            advice = f"`grass device undrain {which}` lets jobs start there"
            yield "warn", f"worker {worker.get('name')}", f"{kind} {names} drained: no new jobs there", advice
        if isinstance(short := worker.get("disk_short"), dict):
            found, _, advice = str(short.get("text")).partition("; ")
            yield "fail", f"worker {worker.get('name')}", f"starts no job: {found}", advice
        if worker.get("version") not in (None, version):
            words = f"version {worker['version']}, the broker is {version}"
            yield (
                "warn",
                f"worker {worker.get('name')}",
                words,
                "install the same version, then `grass restart`",
            )
        if not detecting and isinstance(capacity, dict) and "gpu" not in capacity:
            advice = "if the machine has one: check its driver (`nvidia-smi`), or `grass daemon --capacity '{gpu: 1}'`"
            yield "ok", "gpu", "none detected", advice


def _reboot(directory: str) -> Iterator[Finding]:
    """Tell whether the daemon comes back by itself when the machine starts again."""
    from grassq.cli.service.check import after_reboot
    from grassq.cli.service.unit import here

    try:
        goes_on, found, advice = after_reboot(here(directory))
    except GrassError as error:
        goes_on, found, advice = False, str(error), ""
    yield "ok" if goes_on else "warn", "reboot", found, advice


def _path() -> Iterator[Finding]:
    search = os.fsdecode(home.environment().get(b"PATH", b""))
    first = shutil.which("grass", path=search)
    if first is None:
        yield "warn", "PATH", "no `grass` on PATH", "`python -m grassq` and `grassq` do the same"
        return
    try:
        with Path(first).open("rb") as script:
            ours = b"grassq" in script.read(4096)
    except OSError:
        ours = False
    if ours:
        yield "ok", "PATH", first, ""
    else:
        advice = "use `grassq`, or put its directory earlier on PATH"
        yield "warn", "PATH", f"{first} is another program called grass", advice


def _login() -> Iterator[Finding]:
    if not Path("/run/systemd/system").is_dir():
        return
    kills = _logind_kills()
    lingers = _output(["loginctl", "show-user", str(os.getuid()), "-p", "Linger", "--value"]) == "yes"
    if kills and not lingers:
        advice = "`loginctl enable-linger`, or KillUserProcesses=no in /etc/systemd/logind.conf"
        yield "warn", "logout", "systemd ends your processes, jobs included, when you log out", advice
    else:
        yield "ok", "logout", "your processes keep running" + (" (linger)" if lingers else ""), ""


def _logind_kills() -> bool:
    login = "org.freedesktop.login1"
    answer = _output(
        ["busctl", "get-property", login, "/org/freedesktop/login1", f"{login}.Manager", "KillUserProcesses"]
    )
    if answer.startswith("b "):
        return answer == "b true"
    kills = False
    places = [Path("/etc/systemd/logind.conf"), *sorted(Path("/etc/systemd/logind.conf.d").glob("*.conf"))]
    for place in places:
        try:
            lines = place.read_text(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition("=")
            if name.strip() == "KillUserProcesses":
                kills = value.strip().lower() in ("yes", "true", "1", "on")
    return kills


def _container() -> Iterator[Finding]:
    try:
        first = Path("/proc/1/comm").read_text().strip()
    except OSError:
        return
    if first not in INITS:
        advice = "keep the container running as long as jobs run, and put GRASS_HOME on a volume"
        yield "warn", "container", f"process 1 is {first}: all processes end when it ends", advice


def _limits() -> Iterator[Finding]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    low = []
    if files != resource.RLIM_INFINITY and files < FILES_LOW:
        low.append(f"open files {files}")
    if processes != resource.RLIM_INFINITY and processes < PROCESSES_LOW:
        low.append(f"processes {processes}")
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        low.append("file size is limited")
    if low:
        yield "warn", "ulimit", ", ".join(low), "raise it (`ulimit`), then `grass restart`"
    else:
        yield "ok", "ulimit", f"{'unlimited' if files == resource.RLIM_INFINITY else files} open files", ""


def _kernel() -> Iterator[Finding]:
    release = os.uname().release
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        yield "fail", "kernel", f"{release} has no pidfd", "Linux 5.3 or newer is needed"
        return
    yield "ok", "kernel", f"{release}, Python {sys.version.split()[0]}", ""


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
