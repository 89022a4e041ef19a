"""The run dir of one attempt: its file names and formats are spelled here, those of some notes in attempt_notes.py.

This is the protocol between a daemon and shims of other releases, so it is frozen and versioned: a reader ignores keys
it does not know, and nothing here changes its meaning without a new FORMAT.

    jobs/<id>/checkpoint/             one per job
    jobs/<id>/<attempt>/ spec.json    what to run; JSON, 0600. "lease": true means that it may run only under a lease,
                                      which a shim of the first release does not know; of a name that is in "env"
                                      twice the last one counts; "submitted" is for submitting the job again
                         started      the claim: one JSON line; after the spawn a second one
                         stop         {"v", "grace_s", "reason"}: end the job
                         suspend      {"v", "number", "stop"}: stop all processes, or let them go on; `suspended`: done
                         lease        {"v", "until", "length_s", "boot"}: until when on CLOCK_BOOTTIME it may run
                         log          stdout and stderr (`out` and `err` when split)
                         log.cut      {"v", "from", "to", ...}: what was cut out of `log`; also `out.cut`, `err.cut`
                         exit         JSON, a space, crc32 as eight hex digits, newline
                         acked        empty: the broker has its end on disk
                         unrecorded   empty: the broker's store, restored from a backup, has no record of it
                         next         the order (grassq.run.shim) of the attempt that takes over when this one has
                                      ended, a space, crc32 as eight hex digits, newline
                         files/       what the job leaves; its result.json is also "result" in `exit`
                         tree/        what the job was sent, made aside in `tree.new`: the job's directory
                         sent         {"v", "trees"}: the manifests of `tree`, as long as it has their files
                         fetch        {"v", "root", "to", "patterns", "umask"}: what to bring where after the end
                         fetched      {"v", "error"}: it was brought, or why not
                         unstarted    why the command was not started, as one line: its environment could not be made

A shim runs only what its own daemon ordered, so no shim of the first release ever meets a spec with a lease.
"""

from __future__ import annotations

import binascii
import errno
import json
import os

from grassq import atomic_files
from grassq.descriptors import write_all
from grassq.run import exit_record, processes
from grassq.run.suspension import notes

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeGuard

FORMAT = 1
SPEC_LIMIT, RECORD_LIMIT = 32 << 20, 64 << 10
SPAN_MAX_S = 1e12
STREAMS = ("log", "out", "err")
#: The names of the two empty files that mark an attempt.
ACKED, UNRECORDED = "acked", "unrecorded"
#: Fields of a RunSpec that a spec.json of an earlier release lacks, and what they are then.
LATER = {"lease": False, "log_max": 0, "output": "", "output_made": False,
         **dict.fromkeys(("time_limit_s", "warn_s", "warn_signal", "idle_limit_s"), 0)}  # fmt: skip


class RunSpec:
    """What one attempt runs, with words as bytes."""

    store: str
    job: int
    attempt: int
    boot: str
    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes
    umask: int
    leave_grace_s: float
    with_daemon: bool
    lease: bool  # it may run only under a lease
    split: bool  # these are options of the job; core/job_options.py describes each
    grace_s: float
    keep_children: bool
    log_max: int  # bytes of each stream that are kept; 0: all
    time_limit_s: float  # 0 for none, as for the three below
    warn_s: float  # so long before the time limit the processes that handle warn_signal get it
    warn_signal: int
    idle_limit_s: float
    output: bytes  # the file that is to be another name of the log; empty: none
    output_made: bool  # the submission has made that file, empty

    #: Every field in the order of the names, which is the order of the values that an order carries.
    FIELDS = __slots__ = tuple(sorted(__annotations__))

    def __init__(self, raw: dict[str, Any]) -> None:
        if raw["v"] != FORMAT:
            raise ValueError(f"the run dir has format {raw['v']}, this shim knows {FORMAT}")
        for name in self.FIELDS:
            value = raw[name] if name in raw or name not in LATER else LATER[name]
            setattr(self, name, _READ[self.__annotations__[name]](value))

    @classmethod
    def unpacked(cls, values: tuple[Any, ...]) -> RunSpec:
        """Return a spec from the values of FIELDS, as an order carries them; ValueError if there are more or fewer."""
        spec = cls.__new__(cls)
        for name, value in zip(cls.FIELDS, values, strict=True):
            setattr(spec, name, value)
        return spec


class Lease:
    """How long an attempt may run unless its lease is renewed."""

    __slots__ = ("length_s", "until")

    def __init__(self, until: float, length_s: float) -> None:
        self.until = until  # on CLOCK_BOOTTIME
        self.length_s = length_s  # the whole length that the broker counts: by then nothing may be left

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lease) and (self.until, self.length_s) == (other.until, other.length_s)


class RunDirState:
    """What a run dir and the process table say about an attempt: facts for recovery, no conclusions."""

    def __init__(self) -> None:
        self.exit: dict[str, Any] | None = None  # a valid exit record
        self.claimed = False  # there is `started`, void or not
        self.void = False  # the worker gave the attempt up before any shim took it
        self.job: int | None = None  # these three come from the claim, else from the spec
        self.attempt: int | None = None
        self.boot: str | None = None
        self.shim: tuple[int, int] | None = None  # pid and ticks
        self.shim_alive = False
        self.command: tuple[int, int] | None = None
        self.command_alive = False
        self.suspension = notes.SuspensionNotes()
        self.members: list[tuple[int, int]] = []  # what is left of the job; looked for only when its shim is gone


def attempt_dir(home: bytes | str, job: int, attempt: int) -> str:
    """Return the directory of one attempt of a job."""
    return f"{os.fsdecode(home)}/jobs/{job}/{attempt}"


def home_of(path: str) -> str:
    """Return the home that `attempt_dir` made this path from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(path)))


def files_dir(path: str) -> str:
    """Return GRASS_RUN_DIR of the attempt: the directory for what the job leaves."""
    return f"{path}/files"


def result_file(path: str) -> str:
    """Return GRASS_RESULT_FILE of the attempt: where the job writes its result as JSON."""
    return f"{files_dir(path)}/result.json"


def tree_dir(path: str) -> str:
    """Return the directory of a job that was sent files."""
    return f"{path}/tree"


def setups_dir(path: str) -> str:
    """Return the folder of the environments that jobs of this home have prepared."""
    return f"{home_of(path)}/setups"


def checkpoint_dir(path: str) -> str:
    """Return the checkpoint directory that all attempts of the job share."""
    return f"{os.path.dirname(path)}/checkpoint"


def log_path(path: str, stream: str) -> str:
    """Return the file of one stream: `log`, or `out` and `err` when split."""
    if stream not in STREAMS:
        raise ValueError(f"no stream {stream!r}; there are {', '.join(STREAMS)}")
    return f"{path}/{stream}"


def cut_path(path: str, stream: str) -> str:
    """Return the file that says what was cut out of a stream."""
    return f"{log_path(path, stream)}.cut"


def streams_of(split: object) -> tuple[str, ...]:
    """Return the streams of a job, with or without `--split`."""
    return STREAMS[1:] if split else STREAMS[:1]


def marks(path: str, job: int, attempt: int) -> list[bytes]:
    """Return the environment entries that together mark a process of this attempt."""
    return [
        b"GRASS_JOB_ID=%d" % job,
        b"GRASS_ATTEMPT=%d" % attempt,
        b"GRASS_RUN_DIR=" + os.fsencode(files_dir(path)),
    ]


def encode_word(word: bytes) -> str | dict[str, str]:
    """Return a word of argv, env or cwd as JSON: a string if it is UTF-8, else base64."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": _base64(word)}


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_word(word: object) -> bytes:
    """Return the bytes of a JSON word."""
    if isinstance(word, str):
        return word.encode("utf-8")
    if isinstance(word, dict) and isinstance(word.get("b64"), str):
        data = binascii.a2b_base64(word["b64"])
        if _base64(data) == word["b64"]:  # the strict mode of the decoder is newer than Python 3.8
            return data
    raise ValueError(f"not a word: {word!r}")


#: How a field of a RunSpec is read from JSON, by its type.
_READ: dict[str, Callable[[Any], object]] = {
    "str": str, "int": int, "float": float, "bool": bool, "bytes": decode_word,
    "list[bytes]": lambda words: [decode_word(word) for word in words],
    "dict[bytes, bytes]": lambda pairs: {decode_word(name): decode_word(value) for name, value in pairs},
}  # fmt: skip


def prepare(path: str, spec: bytes) -> None:
    """Create the run dir with this spec.json, ready for an order; doing it again changes nothing."""
    # From the top, the job's own folder first: each is made at the first try.
    for directory in (os.path.dirname(path), path, files_dir(path), checkpoint_dir(path)):
        atomic_files.make_dirs(directory)
    # No shim reads a spec before its first order, and a torn spec is written anew before the next order.
    if not atomic_files.write_new(path, "spec.json", spec):
        atomic_files.write_aside(path, "spec.json", spec, sync=False)


def read_spec(path: str) -> RunSpec:
    """Return what to run; OSError if the file is not there, ValueError if it is invalid."""
    data = atomic_files.read(f"{path}/spec.json", SPEC_LIMIT)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "no spec", f"{path}/spec.json")
    try:
        return RunSpec(json.loads(data))
    except (KeyError, TypeError, RecursionError) as exc:
        raise ValueError(f"the spec is incomplete: {type(exc).__name__} {exc}") from exc


def claim(path: str, spec: RunSpec, pid: int, ticks: int) -> int | None:
    """Claim the attempt for the shim `pid`: return a descriptor for `note_spawn`, None if it is claimed already."""
    ids = _ids(spec.store, spec.job, spec.attempt, spec.boot)
    return atomic_files.create(path, "started", b'%s, "pid": %d, "ticks": %d, "suspends": true}\n' % (ids, pid, ticks))


def void(path: str, store: str, job: int, attempt: int, boot: str) -> bool:
    """Give the attempt up before any shim takes it; False if a shim has."""
    atomic_files.make_dirs(path)
    fd = atomic_files.create(path, "started", void_claim(store, job, attempt, boot))
    if fd is not None:
        os.close(fd)
    return fd is not None


def void_claim(store: str, job: int, attempt: int, boot: str) -> bytes:
    """Return the claim of an attempt that is given up."""
    return b'%s, "void": true}\n' % _ids(store, job, attempt, boot)


def _ids(store: str, job: int, attempt: int, boot: str) -> bytes:
    """Return how each claim begins. Written by hand, as every job pays for it: `json` takes twice as long."""
    text = f'{{"v": {FORMAT}, "store": {json.dumps(store)}, "job": {job}, "attempt": {attempt}, "boot": '
    return (text + json.dumps(boot)).encode("ascii")


def note_spawn(claim: int, pid: int, ticks: int, session: int) -> None:
    """Add the command to the claim."""
    write_all(claim, b'{"pid": %d, "ticks": %d, "session": %d}\n' % (pid, ticks, session))


def request_stop(path: str, grace_s: float | None, reason: str) -> None:
    """Ask for the end of the attempt; None is the grace of its spec."""
    try:
        atomic_files.write_aside(path, "stop", stop_request(grace_s, reason), sync=False)
    except OSError:
        # A full disk often has room for an empty file: a request without a word, with the grace of the spec.
        os.close(os.open(f"{path}/stop", os.O_WRONLY | os.O_CREAT | atomic_files.OURS, 0o600))


def stop_request(grace_s: float | None, reason: str) -> bytes:
    """Return the contents of a stop file."""
    return atomic_files.line({"v": FORMAT, "grace_s": grace_s, "reason": reason})


def read_stop(path: str) -> dict[str, Any] | None:
    """Return the stop request, or None. An unreadable one is still a request, with the grace of the spec."""
    if not os.access(f"{path}/stop", os.F_OK) or (data := atomic_files.read(f"{path}/stop", RECORD_LIMIT)) is None:
        return None
    found = atomic_files.parse(data) or {}
    grace_s = found.get("grace_s")
    return {"grace_s": float(grace_s) if isinstance(grace_s, (int, float)) else None, "reason": found.get("reason")}


def write_lease(path: str, lease: Lease, boot: str) -> None:
    """Write until when the attempt may run; `boot` is the boot whose clock this is."""
    atomic_files.write_aside(path, "lease", lease_line(lease, boot), sync=False)


def lease_line(lease: Lease, boot: str) -> bytes:
    """Return the contents of a lease file."""
    return atomic_files.line({"v": FORMAT, "until": lease.until, "length_s": lease.length_s, "boot": boot})


def read_lease(path: str, boot: str) -> Lease | None:
    """Return until when the attempt may run; None without a lease, or if it is of another boot or invalid."""
    return parse_lease(atomic_files.read(f"{path}/lease", RECORD_LIMIT) or b"", boot)


def parse_lease(data: bytes, boot: str) -> Lease | None:
    """Return the lease in the contents of a lease file; None if it is of another boot or invalid."""
    found = atomic_files.parse(data) or {}
    until, length_s = found.get("until"), found.get("length_s")
    if found.get("v") != FORMAT or found.get("boot") != boot or not (_is_span(until) and _is_span(length_s)):
        return None
    return Lease(float(until), float(length_s))


def follow(predecessor: str, order: bytes) -> None:
    """Let the shim that runs `predecessor` begin the ordered attempt when `predecessor` has ended."""
    atomic_files.write_aside(predecessor, "next", atomic_files.with_checksum(order), sync=False)


def prefetched(path: str) -> bytes | None:
    """Return the order of the attempt that takes over when this one has ended; a damaged order is none."""
    if not os.access(f"{path}/next", os.F_OK):
        return None  # nearly always, and quicker than a read that fails
    try:
        return atomic_files.verify_checksum(atomic_files.read(f"{path}/next", SPEC_LIMIT) or b"")
    except OSError:
        return None


def mark(path: str, marker: str) -> None:
    """Mark the attempt as ACKED or UNRECORDED; not synced, because the broker says it again."""
    try:
        atomic_files.touch(path, marker)
    except (FileNotFoundError, NotADirectoryError):
        return  # the run dir is gone, and with it everything to report


def is_marked(path: str, marker: str) -> bool:
    """Tell whether the attempt is marked as ACKED or UNRECORDED."""
    return os.path.lexists(f"{path}/{marker}")


def attempts(home: bytes | str, most: int) -> list[tuple[int, int]]:
    """Return the attempts that have a run dir, newest job first, at most `most`: only names are read."""
    found: list[tuple[int, int]] = []
    jobs = f"{os.fsdecode(home)}/jobs"
    for job in atomic_files.numbers(jobs):
        found += [(job, attempt) for attempt in atomic_files.numbers(f"{jobs}/{job}")]
        if len(found) >= most:
            break
    return found[:most]


def write_exit(path: str, record: dict[str, Any], sync: bool) -> None:
    """Record the end of the attempt, whole or not at all."""
    body = json.dumps({"v": FORMAT, **record}).encode("ascii")
    atomic_files.write_aside(path, "exit", atomic_files.with_checksum(body), sync)


def read_exit(path: str) -> dict[str, Any] | None:
    """Return how the attempt ended; None if the record is missing, torn, damaged or incomplete."""
    return exit_record.parse(atomic_files.read(f"{path}/exit", RECORD_LIMIT) or b"")


def _is_span(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and 0 <= value <= SPAN_MAX_S


def open_log(path: str, stream: str) -> int:
    """Return a descriptor to which the job may write its stream."""
    return os.open(
        log_path(path, stream), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | atomic_files.OURS, 0o600
    )


def look(path: str, boot: str) -> RunDirState:
    """Gather what is known about an attempt; `boot` is the current boot id. OSError if it cannot be known now."""
    found = RunDirState()
    if not atomic_files.is_there(path):
        return found
    found.suspension = notes.read_notes(path)
    parse_claim(atomic_files.read(f"{path}/started", RECORD_LIMIT), found)
    # The claim names the attempt; reading the spec too would cost every look at a running job its environment.
    if found.job is None:
        _look_at_spec(path, found)
    if found.claimed and not found.void and found.boot == boot:
        found.shim_alive = found.shim is not None and processes.is_alive(*found.shim)
        found.command_alive = found.command is not None and processes.is_alive(*found.command)
    # Last, after the look at the processes: a shim that ended in between has left its record by now.
    found.exit = read_exit(path)
    if found.claimed and not found.void and found.boot == boot and not found.shim_alive and found.exit is None:
        if found.job is not None and found.attempt is not None:
            found.members = processes.members(found.command, marks(path, found.job, found.attempt))
        # The shim may have been killed between the spawn and its note.
        found.command_alive = found.command_alive or (found.command is None and bool(found.members))
    return found


def _look_at_spec(path: str, found: RunDirState) -> None:
    try:
        spec = read_spec(path)
    except (FileNotFoundError, ValueError):
        return
    found.job, found.attempt, found.boot = spec.job, spec.attempt, found.boot or spec.boot


def parse_claim(data: bytes | None, found: RunDirState) -> None:
    """Note what the contents of a claim say; None if there is no claim."""
    if data is None:
        return
    found.claimed = True
    lines = data.split(b"\n")[:-1]  # a line without its newline was never finished
    claimed = (atomic_files.parse(lines[0]) if lines else None) or {}
    found.void = claimed.get("void") is True
    found.job, found.attempt, found.boot = claimed.get("job"), claimed.get("attempt"), claimed.get("boot")
    found.shim, found.suspension.able = _identity(claimed), claimed.get("suspends") is True
    found.command = _identity(atomic_files.parse(lines[1]) or {}) if len(lines) > 1 else None


def _identity(line: dict[str, Any]) -> tuple[int, int] | None:
    pid, ticks = line.get("pid"), line.get("ticks")
    if not isinstance(pid, int) or not isinstance(ticks, int) or not 0 < pid <= exit_record.KERNEL_MAX:
        return None  # a job can write it, and no message could carry a larger number
    return pid, ticks
