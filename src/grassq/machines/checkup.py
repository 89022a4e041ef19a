"""Test a machine step by step, for `grass machine test`: what works there, and what to do about the rest.

A step that fails ends the steps that need it; the others still run. Every step has a deadline. Nothing is left there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol

from msgspec import Struct

from grassq.core.printable import printable
from grassq.errors import GrassError
from grassq.machines.measure import probe
from grassq.machines.measure.probe import MachineProbe
from grassq.machines.measure.report_lines import NOISE_BYTES_MAX, seconds
from grassq.machines.ssh.mux import TooManySessions
from grassq.machines.transport import LinkLost, Stream, Transport

#: The deadline of a short answer.
ANSWER_S = 20.0
ANSWER_BYTES_MAX = 64 << 10
#: The oldest Python that can run a shim.
PYTHON_MIN = (3, 8)
#: A shell that needs longer than this is named, since every session waits for it.
SLOW_SHELL_S = 2.0
#: Less free space than this is named, and less than this is too little for anything, in MiB.
SPACE_LITTLE_MIB, SPACE_NONE_MIB = 1024, 16
#: A clock that is off by more than this is named, in seconds.
CLOCK_OFF_S = 5.0
#: How many sessions are opened at once, and how few are enough: one for orders and one for everything else.
SESSIONS_TRIED, SESSIONS_NEEDED = 4, 2
#: What is sent and returned to measure the speed: at most this much, for at most this long each way.
SPEED_BYTES = 8 << 20
SPEED_S = 2.5
SPEED_CHUNK = 64 << 10
#: The most folders of other stores that are named.
STORES_NAMED = 3

_STORE = re.compile(r"[0-9a-f-]{4,64}")


class Step(Struct, frozen=True):
    """What one step found: whether it works, None for a remark, and words that say what to do."""

    name: str
    ok: bool | None
    words: str


class LoginTransport(Transport, Protocol):
    """A transport that has to log in first."""

    def connect(self) -> None:
        """Log in; a GrassError says in words why that is not possible."""

    def close(self) -> None:
        """Log out."""


def checkup(
    transport: LoginTransport,
    store: str,
    folder: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Iterator[Step]:
    """Yield the steps of a test, each when it is done. `folder` in the home there has the far home of each store."""
    try:
        began = clock()
        try:
            transport.connect()
        except (GrassError, LinkLost) as error:
            yield Step("login", False, _words(error))
            return
        yield Step("login", True, f"in {clock() - began:.2f} s")
        began = clock()
        try:
            found = probe.ask(transport, os.fsencode(f"{folder}/{store}"))
        except (GrassError, LinkLost) as error:
            yield Step("shell", False, f"{_words(error)}; Grass needs a login whose shell can start `sh`, and /proc")
            return
        yield _shell(found, clock() - began)
        yield _python(found)
        yield _space(found, folder)
        yield _gpus(found)
        yield _logout(found)
        asked: dict[str, Callable[[], Step]] = {
            "clock": lambda: _clock(transport, clock, wall),
            "sessions": lambda: _sessions(transport),
            "speed": lambda: _speed(transport, clock),
            "leftovers": lambda: _leftovers(transport, store, folder, clock),
        }
        for name, step in asked.items():
            try:
                yield step()
            except LinkLost as error:
                yield Step(name, False, _words(error))
    finally:
        transport.close()


def _words(error: GrassError | LinkLost) -> str:
    return printable((error.strerror if isinstance(error, LinkLost) else None) or str(error))


def _shell(found: MachineProbe, took_s: float) -> Step:
    kind = found.sh.rpartition("/")[2] or "of an unknown kind"
    words = f"sh is {kind}" + (f", the login shell is {found.login_shell}" if found.login_shell else "")
    if found.noise:
        hint = (
            f"it prints {found.noise:,} bytes before each command; rsync and scp break by that: make its files silent"
        )
        return Step("shell", None, f"{words}; {hint} for shells that are not interactive")
    if took_s > SLOW_SHELL_S and (found.gpus is None or found.gpus.fault is None):
        return Step("shell", None, f"{words}; it took {took_s:.1f} s to answer, and every copy and log waits for that")
    return Step("shell", True, words)


def _python(found: MachineProbe) -> Step:
    lacking = [tool for tool in ("setsid", "sha256sum", "tar") if tool not in found.tools]
    more = f"; there is no {', no '.join(lacking)}" if lacking else ""
    works: bool | None = True
    if "tar" not in found.tools:
        works, more = None, f"{more}: jobs get no files (--send) and bring none back (--fetch)"
    if found.python is None:
        return Step("Python", works, f"none: sh supervises the jobs{more}")
    if tuple(int(part) for part in found.python.split(".")[:2]) < PYTHON_MIN:
        return Step("Python", works, f"{found.python} is too old to supervise jobs, so sh does{more}")
    return Step("Python", works, f"{found.python} supervises the jobs{more}")


def _space(found: MachineProbe, folder: str) -> Step:
    disk = found.disk
    if found.is_writable is False:
        hint = "make room there if the disk is full; `grass machine add --dir DIR` names another place"
        return Step("space", False, f"{folder} there cannot be written: {hint}")
    if disk is None:
        return Step("space", None, f"`df` there says nothing about {folder}")
    words = f"{_size(disk.free_mib)} free on {disk.mounted}"
    if disk.free_mib < SPACE_NONE_MIB:
        return Step("space", False, f"{words}: too little to start a job; make room there")
    return Step("space", None if disk.free_mib < SPACE_LITTLE_MIB else True, words)


def _size(mib: int) -> str:
    return f"{mib:,} MiB" if mib < 10 * 1024 else f"{mib // 1024:,} GiB"


def _gpus(found: MachineProbe) -> Step:
    report = found.gpus
    if report is None or (report.fault is None and not report.gpus):
        return Step("GPUs", True, "none: there is no nvidia-smi, rocm-smi or amd-smi that lists one")
    if report.fault is not None:
        return Step("GPUs", None, f"{report.fault}; jobs that ask for a gpu do not start there")
    listed = []
    for gpu in report.gpus:
        memory = "unknown memory" if gpu.total_mib is None else f"{gpu.total_mib:,} MiB"
        notes = [
            *(["in MIG mode: a job sees one instance"] if gpu.is_mig else []),
            *(["set so that nothing may compute on it"] if gpu.is_prohibited else []),
            *([f"{gpu.utilisation} % busy"] if gpu.utilisation else []),
        ]
        listed.append(", ".join([f"{gpu.index} {gpu.name}", memory, *notes]))
    return Step(
        "GPUs", None if any(gpu.is_mig or gpu.is_prohibited for gpu in report.gpus) else True, "; ".join(listed)
    )


def _logout(found: MachineProbe) -> Step:
    """Tell what the login manager does to jobs when the connection ends."""
    if found.kills_at_logout:
        return Step(
            "logout",
            False,
            "systemd there ends all processes of a user who logs out, so jobs end with the connection; "
            "an administrator must set KillUserProcesses=no in /etc/systemd/logind.conf",
        )
    if found.removes_ipc and found.linger is False:
        return Step(
            "logout",
            None,
            "systemd there deletes the shared memory of a user who logs out, also under running jobs; "
            "`loginctl enable-linger` there prevents that",
        )
    return Step("logout", True, "jobs outlive the connection")


def _clock(transport: Transport, clock: Callable[[], float], wall: Callable[[], float]) -> Step:
    """Compare the clocks: the one there was read between two moments here."""
    with closing(transport.open("sh")) as stream:
        # The first answer says that the shell has started: its start must not count.
        stream.write(b"printf '\\ngrass-clock\\n'; read -r go; date +%s.%N\n", ANSWER_S)
        stream.skip_to(b"grass-clock", NOISE_BYTES_MAX, ANSWER_S)
        sent, began = wall(), clock()
        stream.write(b"go\n", ANSWER_S)
        said = stream.read_line(ANSWER_BYTES_MAX, ANSWER_S)
        trip_s = clock() - began
    there = seconds(said.decode("ascii", "replace"))
    if there is None:
        return Step("clock", None, "`date` there does not say the time")
    exact_s = trip_s if b"." in said and b"%" not in said else max(1.0, trip_s)
    off_s = there - (sent + trip_s / 2)
    words = f"{abs(off_s):.1f} s {'ahead of' if off_s > 0 else 'behind'} the one here, give or take {exact_s:.2f} s"
    if abs(off_s) > CLOCK_OFF_S + exact_s:
        return Step(
            "clock", None, f"{words}; times in that machine's logs are off: let its clock be set over the network"
        )
    return Step("clock", True, f"{words}; a round trip takes {trip_s * 1000:.0f} ms")


def _sessions(transport: Transport) -> Step:
    """Open several sessions at once, as jobs, logs and copies do."""
    opened: list[Stream] = []
    try:
        while len(opened) < SESSIONS_TRIED:
            try:
                stream = transport.open("sh")
            except TooManySessions:
                break
            opened.append(stream)
            stream.write(b"printf '\\ngrass-session\\n'\n", ANSWER_S)
            stream.skip_to(b"grass-session", NOISE_BYTES_MAX, ANSWER_S)
        for stream in opened:
            # A session that is only closed here is not at once free again there.
            stream.finish(ANSWER_S)
    finally:
        for stream in opened:
            stream.close()
    if len(opened) == SESSIONS_TRIED:
        return Step("sessions", True, f"{SESSIONS_TRIED} at once")
    hint = "MaxSessions in sshd_config there allows no more"
    if len(opened) < SESSIONS_NEEDED:
        return Step("sessions", False, f"only {len(opened)} at once: {hint}; Grass needs {SESSIONS_NEEDED}")
    return Step("sessions", None, f"only {len(opened)} at once: {hint}; ends of jobs are noticed later, copies wait")


def _speed(transport: Transport, clock: Callable[[], float]) -> Step:
    """Send bytes that no compression makes smaller, and let as many come back."""
    with closing(transport.open("wc -c")) as stream:
        chunk, sent, began = os.urandom(SPEED_CHUNK), 0, clock()
        while sent < SPEED_BYTES and clock() - began < SPEED_S:
            stream.write(chunk, ANSWER_S)
            sent += len(chunk)
        stream.end_input()
        said = _read_all(stream, clock)
        there = sent / max(1e-6, clock() - began)
    if not said.rstrip().endswith(b"%d" % sent):
        return Step("speed", False, f"{sent:,} bytes were sent, and other numbers of them arrived")
    with closing(transport.open(f"head -c {SPEED_BYTES} /dev/urandom")) as stream:
        came, began = 0, clock()
        while clock() - began < SPEED_S and (data := stream.read_some(SPEED_CHUNK, ANSWER_S)):
            came += len(data)
        back = came / max(1e-6, clock() - began)
    return Step("speed", True, f"{there / (1 << 20):,.1f} MiB/s there, {back / (1 << 20):,.1f} MiB/s back")


def _read_all(stream: Stream, clock: Callable[[], float]) -> bytes:
    """Return all that a command says; LinkLost if it says too much, or does not end in time."""
    said, deadline = b"", clock() + ANSWER_S
    while data := stream.read_some(ANSWER_BYTES_MAX, max(0.0, deadline - clock())):
        said += data
        if len(said) > NOISE_BYTES_MAX:
            raise LinkLost(0, f"a command there says more than {NOISE_BYTES_MAX:,} bytes")
    return said


def _leftovers(transport: Transport, store: str, folder: str, clock: Callable[[], float]) -> Step:
    """Name the folders of other stores."""
    with closing(transport.open(f"ls -1 {folder}")) as stream:
        lines = _read_all(stream, clock).decode("utf-8", "replace").split("\n")
    # Other machines of this store may share the home directory.
    ours = store.partition("-")[0]
    others = [line for line in lines if line.partition("-")[0] != ours and _STORE.fullmatch(line)]
    if not others:
        return Step("leftovers", True, "none of other stores")
    named = ", ".join(others[:STORES_NAMED]) + (
        f" and {len(others) - STORES_NAMED} more" if len(others) > STORES_NAMED else ""
    )
    return Step(
        "leftovers", None, f"{folder} there also has folders of other stores: {named}; delete those that nobody uses"
    )
