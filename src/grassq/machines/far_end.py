"""The far side of a machine: installs its script, asks it, and reads its run dirs as if they were here."""

from __future__ import annotations

import errno
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from grassq.core.messages import LeftFolder
from grassq.core.model import AttemptId
from grassq.core.printable import printable
from grassq.errors import BadInput
from grassq.machines.far import script, shim_bundle
from grassq.machines.far_greeting import FarGreeting, FarUnusable, read_greeting, several_computers
from grassq.machines.far_stream import ANSWER_MAX, NOISE_MAX, REQUEST_MAX, FarStream, NotRun, Sections, escaped
from grassq.machines.run_script import run_script
from grassq.machines.transport import LinkLost, Stream, Transport
from grassq.run import attempt_notes, exit_record, log_files, rundir
from grassq.run.attempt_notes import CutNote
from grassq.run.rundir import Lease
from grassq.run.suspension import notes
from grassq.run.suspension.order import is_in_force
from grassq.worker.run_spec import Launch

#: How long an answer, a login shell with its rc files, and work that reads many files may take.
REQUEST_S, OPEN_S, SLOW_S = 20.0, 60.0, 600.0
#: The largest spec and command that are sent; escaped they are at most five times as large.
LAUNCH_MAX = REQUEST_MAX // 5
#: The longest line of the installer.
INSTALLER_LINE = 4096
#: Digits of a number that a machine says.
DIGITS_MAX = 18
#: Bytes of a sentence that a machine says.
WORDS_MAX = 1000
#: The blocks in which files are read there.
BLOCK = 4096
#: Bytes at the end of a log in which its last lines are looked for: a log of progress bars may have no line at all.
TAIL_MAX = 8 << 20
#: Bytes of the journal that are read at once, and above which it is emptied: it is a hint, the run dirs are the truth.
JOURNAL_READ, JOURNAL_MAX = 256 << 10, 1 << 20
#: Jobs of one request of work that may take long.
JOBS_AT_ONCE = 1000

_FOLDER = re.compile(r"[A-Za-z0-9/._+=-]+")
_STORE = re.compile(r"[A-Za-z0-9._-]+")
_IDS = re.compile(rb"(\d{1,18}) (\d{1,9})")
_HAPPENED = (b"started", b"suspended", b"exited")


class Uninstalled(Struct, frozen=True):
    """What is left of a far home that was to be deleted."""

    #: The attempts that still run: nothing was deleted then.
    running: tuple[str, ...] = ()
    #: Why something is left; "" if nothing is.
    why: str = ""
    #: Only files are left that a process has open, on NFS: they vanish when it ends.
    is_open_only: bool = False


class FarEnd:
    """The far side of one machine, for one store. Every call has a deadline.

    Used by one thread; only `remove`, `size` and `uninstall`, which have sessions of their own, may run beside it.
    LinkLost means that the connection is over; another OSError, that this one thing cannot be done there now.
    """

    def __init__(
        self,
        transport: Transport,
        store: str,
        *,
        folder: str = ".grass-ssh",
        python: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _FOLDER.fullmatch(folder) or folder.startswith("-"):
            raise BadInput(
                f"the directory {folder!r} on a machine may only have the characters A-Z a-z 0-9 / . _ + = -"
            )
        if not _STORE.fullmatch(store) or store.startswith((".", "-")):
            raise BadInput(f"{store!r} is not the id of a store")
        self._transport = transport
        self._store = store
        self._folder = folder
        self._python = python
        self._clock = clock
        self._script = f"{folder}/{store}/bin/{script.name()}"
        self._control: FarStream | None = None
        self._journal_at = 0
        #: The line that each verb prints first.
        self.marker = secrets.token_hex(16)
        #: Why the control stream is over.
        self.lost: str | None = None
        self._greeting: FarGreeting | None = None

    @property
    def greeting(self) -> FarGreeting:
        """What the machine said when it was opened."""
        assert self._greeting is not None
        return self._greeting

    def open(self, *, on_any: bool = False) -> FarGreeting:
        """Start the control stream, after installing the script if it is not there; FarUnusable says why not.

        The jobs of another computer with the same home directory would look as if a reboot had ended them; `on_any`
        opens it all the same.
        """
        try:
            self._control = self._start("serve")
        except NotRun:
            self._install()
            try:
                self._control = self._start("serve")
            except NotRun as error:
                raise FarUnusable(f"the machine has the script of Grass but does not run it: {error.words}") from None
        try:
            self._greeting = self._greet()
            if self._greeting.other is not None and not on_any:
                raise several_computers(self._greeting.other, self._greeting.computer)
        except BaseException:
            self.close()
            raise
        return self._greeting

    def _greet(self) -> FarGreeting:
        shim = shim_bundle.name() if self._python else "-"
        answer = self._ask("hello", shim, within_s=OPEN_S)
        if "uninstalled" in answer:
            self._install()
            answer = self._ask("hello", shim, within_s=OPEN_S)
        self._journal_at = _number(answer.get("journal", b""))
        return read_greeting(answer)

    def lead(self) -> None:
        """Let only this connection start attempts from now on, and no earlier one."""
        self._ask("lead")

    def start(self, attempt: AttemptId, launch: Launch, lease: Lease | None) -> bool:
        """Make the run dir and start a supervisor; return False if the attempt is claimed already.

        LinkLost if another connection leads: this one can start nothing any more.
        """
        leased = b"" if lease is None else rundir.lease_line(lease, self.greeting.boot)
        # A shim of Python reads spec.json itself.
        files = (leased, launch.content, b"" if self.greeting.python else run_script(launch))
        if sum(map(len, files)) > LAUNCH_MAX:
            # No system takes as much: the supervisor says so in the exit record, as a shim does.
            files = (leased, b"{}", run_script(launch, too_large=True))
        words = [word for data in files for word in (escaped(data) or b"-", len(data))]
        answer = self._ask("start", *attempt, *words)
        if "overtaken" in answer:
            # By a later connection; or late, by an earlier one, and then a new connection has to lead.
            self.lost = "another connection has taken over"
            self.close()
            raise LinkLost(0, self.lost)
        return "claimed" not in answer

    def look(self, attempt: AttemptId) -> rundir.RunDirState:
        """Return what the run dir and the process table there say."""
        found = rundir.RunDirState()
        sections = self._ask("look", *attempt)
        order, done = (notes.parse(sections.get(name, b"")) for name in (notes.ORDER, notes.DONE))
        found.suspension = notes.SuspensionNotes(order, done)
        rundir.parse_claim(sections.get("started"), found)
        found.job, found.attempt = attempt
        if found.boot is None:
            found.boot = self.greeting.boot
        same_boot = found.claimed and not found.void and found.boot == self.greeting.boot
        alive = set(_pairs(sections.get("alive", b"").split(b"\n")))
        found.shim_alive = same_boot and found.shim in alive
        found.command_alive = same_boot and found.command in alive
        found.exit = exit_record.parse(sections.get("exit", b""))
        if (
            found.exit is not None
            and found.exit.get("result_unread") is True
            and found.exit["outcome"] == exit_record.EXITED
        ):
            exit_record.take_result(found.exit, sections.get("result"))
        if same_boot and not found.shim_alive and found.exit is None:
            found.members = self._members(attempt)
            found.command_alive = found.command_alive or (found.command is None and bool(found.members))
        return found

    def _members(self, attempt: AttemptId) -> list[tuple[int, int]]:
        lines = self._ask("members", *attempt).get("members", b"").split(b"\n")
        if b"end 0" not in lines:
            raise OSError(errno.EAGAIN, "the processes of the machine cannot be looked for now")
        return _pairs(lines)

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        """Write the stop file and wake the supervisor; signal what a supervisor that is gone has left."""
        if members := self.look(attempt).members:
            words = [number for member in members for number in member]
            self._ask("signal", "TERM" if grace_s > 0 else "KILL", *words)
            # What is suspended keeps its TERM pending until it goes on.
            self._ask("signal", "CONT", *words)
            return
        request = rundir.stop_request(grace_s, "asked by the user")
        self._ask("stop", *attempt, escaped(request), len(request))

    def suspend(self, attempt: AttemptId, number: int, stop: bool) -> bool:
        """Write the order to stop or to go on and wake the supervisor; return whether that is done.

        Signal what a supervisor that is gone has left: that is done when a further look finds the same processes.
        """
        found = self.look(attempt)
        if not is_in_force(found, number):
            return False
        if found.shim_alive and found.suspension.done == (number, stop):
            return True
        line = notes.line(number, stop)
        self._ask("suspend", *attempt, escaped(line), len(line))
        if found.shim_alive:
            return False
        self._ask("signal", "STOP" if stop else "CONT", *(number for each in found.members for number in each))
        return not stop or self._members(attempt) == found.members

    def void(self, attempt: AttemptId, boot: str) -> bool:
        """Claim the attempt so that it never starts; return False if a supervisor has claimed it."""
        claim = rundir.void_claim(self._store, *attempt, boot)
        return "claimed" not in self._ask("void", *attempt, escaped(claim))

    def write_lease(self, attempt: AttemptId, lease: Lease, boot: str) -> None:
        """Write until when the attempt may run, on the clock of that boot."""
        line = rundir.lease_line(lease, boot)
        self._ask("lease", *attempt, escaped(line), len(line))

    def read_lease(self, attempt: AttemptId, boot: str) -> Lease | None:
        """Return the lease in the run dir; None without one, or if it is of another boot."""
        return rundir.parse_lease(self._ask("leased", *attempt).get("lease", b""), boot)

    def inventory(self, most: int) -> list[tuple[AttemptId, frozenset[str]]]:
        """Return the attempts that have a run dir there, newest first, with their markers."""
        found = []
        for line in self._ask("list", most).get("attempts", b"").split(b"\n"):
            if ids := _IDS.match(line):
                markers = {word.decode("ascii", "replace") for word in line[ids.end() :].split()}
                found.append(((int(ids[1]), int(ids[2])), frozenset(markers)))
        return sorted(found, key=lambda each: each[0], reverse=True)[:most]

    def mark(self, attempt: AttemptId, marker: str) -> None:
        """Mark an attempt; do nothing without a run dir."""
        if marker not in (rundir.ACKED, rundir.UNRECORDED):
            raise ValueError(f"no marker {marker!r}")
        self._ask("mark", *attempt, marker)

    def folders(self, most: int) -> list[int]:
        """Return the ids of the jobs that have a folder there, newest first."""
        return _numbers(self._ask("folders", most).get("folders", b""))[:most]

    def read(self, job: int, attempt: int, stream: str, offset: int, most: int) -> tuple[bytes, int]:
        """Return bytes of a stream from an offset on, up to what was cut out of it, and the stream's size."""
        data, size, found = self._read_log(job, attempt, stream, offset, most)
        return log_files.without(found, offset, data), size

    def cut(self, job: int, attempt: int, stream: str) -> CutNote | None:
        """Return what was cut out of a stream; None if nothing was."""
        return self._read_log(job, attempt, stream, 0, 0)[2]

    def _read_log(
        self, job: int, attempt: int, stream: str, offset: int, most: int
    ) -> tuple[bytes, int, CutNote | None]:
        rundir.log_path("", stream)
        data, size, answer = self._read(("read", job, attempt, stream), offset, min(most, log_files.READ_LIMIT))
        return data, size, attempt_notes.parse_cut(answer.get("cut", b""), size)

    def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        """Return where the last lines of a stream begin, not before its last TAIL_MAX bytes."""
        _, end, found = self._read_log(job, attempt, stream, 0, 0)

        def pread(size: int, start: int) -> bytes:
            return self.read(job, attempt, stream, start, size)[0]

        return log_files.begin_around(found, lines, end, pread, max(0, end - TAIL_MAX))

    def changed(self) -> list[tuple[AttemptId, str]]:
        """Return what the journal has got since the last call: attempts, and `started`, `suspended` or `exited`."""
        data, size, _ = self._read(("changed", JOURNAL_MAX), self._journal_at, JOURNAL_READ)
        if size < self._journal_at:
            # It was emptied.
            self._journal_at = 0
            data, _, _ = self._read(("changed", JOURNAL_MAX), 0, JOURNAL_READ)
        whole = data.rfind(b"\n") + 1
        self._journal_at += whole
        return [event for line in data[:whole].split(b"\n") if (event := journal_event(line)) is not None]

    def events(self) -> Stream:
        """Return a stream of the lines of the journal from now on."""
        stream = self._transport.open(self.command("events", self.marker))
        try:
            stream.skip_to(self.marker.encode("ascii"), NOISE_MAX, OPEN_S)
        except BaseException:
            stream.close()
            raise
        return stream

    def command(self, verb: str, *args: str) -> str:
        """Return the command line of a verb; the first argument is the line that the verb prints first."""
        return " ".join(("sh", self._script, verb, *args))

    def remove(self, jobs: Collection[int], spare: Collection[int]) -> list[LeftFolder]:
        """Remove the folders of jobs, of those in `spare` all but the checkpoints; return what is still there."""
        left = []
        for some in _batches(jobs):
            answer = self._ask_once("remove", *(f"{job}:{int(job in spare)}" for job in some))
            for line in answer.get("left", b"").split(b"\n"):
                job, _, rest = line.partition(b" ")
                kilobytes, _, why = rest.partition(b" ")
                if _is_number(job) and _is_number(kilobytes):
                    left.append(LeftFolder(int(job), int(kilobytes) << 10, why.decode("ascii", "replace")))
        return left

    def size(self, jobs: Collection[int]) -> int:
        """Return the bytes that the folders of jobs take of the disk there."""
        answers = (self._ask_once("size", *some).get("kilobytes", b"") for some in _batches(jobs))
        return sum(_number(answer) << 10 for answer in answers)

    def uninstall(self) -> Uninstalled:
        """Delete the far home unless attempts still run; return what is left."""
        answer = self._ask_once("uninstall")
        running = answer.get("running", b"").decode("ascii", "replace").split()
        why = answer.get("left", answer.get("open", b""))[:WORDS_MAX].decode("utf-8", "replace")
        return Uninstalled(tuple(running), printable(why), "open" in answer)

    def close(self) -> None:
        """End the control stream."""
        if self._control is not None:
            self._control.close()
            self._control = None
            self.lost = self.lost or "it was closed"

    def _start(self, verb: str, *args: str) -> FarStream:
        command = self.command(verb, self.marker, *args)
        return FarStream(self._transport, command, self.marker, OPEN_S, clock=self._clock)

    def _install(self) -> None:
        files = {script.name(): script.text()}
        if self._python:
            files[shim_bundle.name()] = shim_bundle.text()
        begin, rest = script.installer(self.marker, self._folder, self._store, files)
        try:
            stream = FarStream(self._transport, "sh", self.marker, OPEN_S, first=begin, clock=self._clock)
        except NotRun as error:
            said = f": {error.words}" if error.words else ""
            raise FarUnusable(f"the machine lets you log in but does not run `sh`{said}") from None
        try:
            stream.finish(rest, OPEN_S)
            word, _, reply = stream.read_line(INSTALLER_LINE, OPEN_S).partition(b" ")
        finally:
            stream.close()
        words = printable(reply.decode("utf-8", "replace"))
        if word != b"ok":
            raise FarUnusable(f"the machine cannot be used: {words}")
        # A login shell may go to another directory than the home: then only the whole path leads there.
        if _FOLDER.fullmatch(words) and words.startswith("/"):
            self._script = f"{words}/bin/{script.name()}"

    def _ask(self, *words: object, most: int = ANSWER_MAX, within_s: float | None = None) -> Sections:
        if self._control is None:
            raise LinkLost(0, self.lost or "the machine is not connected")
        try:
            answer = self._control.ask(words, REQUEST_S if within_s is None else within_s, most)
        except OSError as error:
            self.lost = error.strerror or str(error)
            self.close()
            raise
        return _checked(answer)

    def _ask_once(self, verb: str, *words: object) -> Sections:
        """Ask in a session of its own, for work that may take long."""
        try:
            stream = self._start("once", verb)
        except NotRun as error:
            raise LinkLost(0, error.words) from None
        try:
            return _checked(stream.ask(words, SLOW_S))
        finally:
            stream.close()

    def _read(self, request: tuple[object, ...], offset: int, most: int) -> tuple[bytes, int, Sections]:
        offset, most = max(0, offset), max(0, most)
        block = offset // BLOCK
        blocks = (offset + most + BLOCK - 1) // BLOCK - block
        answer = self._ask(*request, block, blocks, most=blocks * BLOCK + BLOCK)
        data = answer.get("bytes", b"")[offset - block * BLOCK :][:most] if blocks else b""
        size = _number(answer.get("size", b""))
        return data, max(size, offset + len(data)) if data else size, answer


def journal_event(line: bytes) -> tuple[AttemptId, str] | None:
    """Return the attempt of a line of the journal, and what happened; None if the line is damaged."""
    words = line.split(b" ")
    if len(words) < 3 or not (ids := _IDS.fullmatch(b" ".join(words[:2]))) or words[2] not in _HAPPENED:
        return None
    return (int(ids[1]), int(ids[2])), words[2].decode("ascii")


def _checked(answer: Sections) -> Sections:
    if "failed" in answer:
        raise OSError(errno.EIO, printable(answer["failed"][:WORDS_MAX].decode("utf-8", "replace")))
    return answer


def _pairs(lines: list[bytes]) -> list[tuple[int, int]]:
    each = (line.split() for line in lines)
    return sorted((int(pair[0]), int(pair[1])) for pair in each if len(pair) == 2 and all(map(_is_number, pair)))


def _numbers(data: bytes) -> list[int]:
    return [int(word) for word in data.split() if _is_number(word)]


def _is_number(word: bytes) -> bool:
    # Python refuses to read numbers of thousands of digits.
    return word.isdigit() and len(word) <= DIGITS_MAX


def _number(data: bytes) -> int:
    return next(iter(_numbers(data[:32])), 0)


def _batches(jobs: Collection[int]) -> Iterable[list[int]]:
    each = list(jobs)
    return (each[start : start + JOBS_AT_ONCE] for start in range(0, len(each), JOBS_AT_ONCE))
