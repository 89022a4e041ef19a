"""The run dir of one attempt: the only place that spells its file names and formats.

This is the protocol between a daemon and shims of other releases, so it is frozen and versioned: a reader ignores keys
it does not know, and nothing here changes its meaning without a new FORMAT.

    jobs/<id>/checkpoint/             one per job
    jobs/<id>/<attempt>/ spec.json    what to run; JSON, 0600
                         started      the claim: one JSON line; after the spawn a second one
                         stop         {"v", "grace_s", "reason"}: end the job
                         log          stdout and stderr (`out` and `err` when split)
                         exit         JSON, a space, crc32 as eight hex digits, newline
                         files/       what the job leaves
"""

from __future__ import annotations

import binascii
import errno
import json
import os
import stat
import time
import zlib

from grassq.run import processes

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from typing import Any

FORMAT = 1
SPEC_LIMIT = 32 << 20
RECORD_LIMIT = 64 << 10
STREAMS = ("log", "out", "err")

_OURS = os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a job may have put a fifo in our file's place, and opening that would wait for ever.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _OURS
# No such file, a link, or a socket. Any other error is raised: what cannot be read now is not what is not there.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class Spec:
    """What one attempt runs, with words as bytes."""

    __slots__ = (
        "argv", "attempt", "boot", "cwd", "env", "grace_s", "job", "keep_children", "leave_grace_s", "split", "store",
        "umask", "with_daemon",
    )  # fmt: skip

    def __init__(self, raw: dict[str, Any]) -> None:
        if raw["v"] != FORMAT:
            raise ValueError(f"the run dir has format {raw['v']}, this shim knows {FORMAT}")
        self.store = str(raw["store"])
        self.job = int(raw["job"])
        self.attempt = int(raw["attempt"])
        self.boot = str(raw["boot"])
        self.argv = [decode_word(word) for word in raw["argv"]]
        if not self.argv:
            raise ValueError("the spec names no program")
        self.env = {decode_word(name): decode_word(value) for name, value in raw["env"]}
        self.cwd = decode_word(raw["cwd"])
        self.umask = int(raw["umask"])
        self.split = bool(raw["split"])
        self.grace_s = float(raw["grace_s"])
        self.leave_grace_s = float(raw["leave_grace_s"])
        self.keep_children = bool(raw["keep_children"])
        self.with_daemon = bool(raw["with_daemon"])


class Found:
    """What a run dir and the process table say about an attempt: facts for recovery, no conclusions."""

    __slots__ = (
        "attempt", "boot", "claimed", "command", "command_alive", "exit", "job", "members", "shim",
        "shim_alive", "void",
    )  # fmt: skip

    def __init__(self) -> None:
        self.exit: dict[str, Any] | None = None  # a valid exit record
        self.claimed = False  # there is `started`, void or not
        self.void = False  # the worker gave the attempt up before any shim took it
        self.job: int | None = None  # these three: of the claim, else of the spec
        self.attempt: int | None = None
        self.boot: str | None = None
        self.shim: tuple[int, int] | None = None  # pid and ticks
        self.shim_alive = False
        self.command: tuple[int, int] | None = None
        self.command_alive = False
        self.members: list[tuple[int, int]] = []  # what is left of the job; looked for only when its shim is gone


def attempt_dir(home: bytes | str, job: int, attempt: int) -> str:
    """Where one attempt of a job lives."""
    return f"{os.fsdecode(home)}/jobs/{job}/{attempt}"


def home_of(path: str) -> str:
    """The home that `attempt_dir` made this path from."""
    return os.path.dirname(os.path.dirname(os.path.dirname(path)))


def files_dir(path: str) -> str:
    """GRASS_RUN_DIR of the attempt: the job's own corner."""
    return f"{path}/files"


def checkpoint_dir(path: str) -> str:
    """The checkpoint directory all attempts of the job share."""
    return f"{os.path.dirname(path)}/checkpoint"


def log_path(path: str, stream: str) -> str:
    """The file of one stream: `log`, or `out` and `err` when split."""
    if stream not in STREAMS:
        raise ValueError(f"no stream {stream!r}; there are {', '.join(STREAMS)}")
    return f"{path}/{stream}"


def marks(path: str, job: int, attempt: int) -> list[bytes]:
    """The environment entries that together say that a process belongs to this attempt."""
    return [
        b"GRASS_JOB_ID=%d" % job,
        b"GRASS_ATTEMPT=%d" % attempt,
        b"GRASS_RUN_DIR=" + os.fsencode(files_dir(path)),
    ]


def encode_word(word: bytes) -> str | dict[str, str]:
    """A word of argv, env or cwd as JSON: a string if it is UTF-8, else base64."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": binascii.b2a_base64(word, newline=False).decode("ascii")}


def decode_word(word: object) -> bytes:
    """The bytes of a JSON word."""
    if isinstance(word, str):
        return word.encode("utf-8")
    if isinstance(word, dict) and isinstance(word.get("b64"), str):
        return binascii.a2b_base64(word["b64"], strict_mode=True)
    raise ValueError(f"not a word: {word!r}")


def prepare(path: str, spec: dict[str, Any]) -> None:
    """Lay the run dir out, ready for an order; doing it again changes nothing."""
    for directory in (path, files_dir(path), checkpoint_dir(path)):
        _make_dirs(directory)
    _write_aside(path, "spec.json", json.dumps(spec).encode("ascii"), sync=False)


def read_spec(path: str) -> Spec:
    """What to run; OSError when it is not there, ValueError when it makes no sense."""
    data = _read(f"{path}/spec.json", SPEC_LIMIT)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "no spec", f"{path}/spec.json")
    try:
        return Spec(json.loads(data))
    except (KeyError, TypeError, RecursionError) as exc:
        raise ValueError(f"the spec is incomplete: {type(exc).__name__} {exc}") from exc


def claim(path: str, spec: Spec, pid: int, ticks: int) -> bool:
    """Take the attempt for the shim `pid`; False when somebody took it before."""
    ids = {"store": spec.store, "job": spec.job, "attempt": spec.attempt, "boot": spec.boot}
    return _create_started(path, {**ids, "pid": pid, "ticks": ticks})


def void(path: str, store: str, job: int, attempt: int, boot: str) -> bool:
    """Give the attempt up before any shim takes it; False when one has."""
    _make_dirs(path)
    ids = {"store": store, "job": job, "attempt": attempt, "boot": boot}
    return _create_started(path, {**ids, "void": True})


def note_spawn(path: str, pid: int, ticks: int, session: int) -> None:
    """Add the command to the claim."""
    fd = os.open(f"{path}/started", os.O_WRONLY | os.O_APPEND | _OURS)
    try:
        _write_all(fd, _line({"pid": pid, "ticks": ticks, "session": session}))
    finally:
        os.close(fd)


def request_stop(path: str, grace_s: float | None, reason: str) -> None:
    """Leave word that the attempt must end; None is the grace its spec says."""
    _write_aside(path, "stop", _line({"v": FORMAT, "grace_s": grace_s, "reason": reason}), sync=False)


def read_stop(path: str) -> dict[str, Any] | None:
    """The stop request, or None. One that cannot be read is still a request, with the grace of the spec."""
    data = _read(f"{path}/stop", RECORD_LIMIT)
    if data is None:
        return None
    found = _parse(data) or {}
    grace_s = found.get("grace_s")
    return {"grace_s": float(grace_s) if isinstance(grace_s, int | float) else None, "reason": found.get("reason")}


def write_exit(path: str, record: dict[str, Any], sync: bool) -> None:
    """Put the end of the attempt on record, whole or not at all."""
    body = json.dumps({"v": FORMAT, **record}).encode("ascii")
    _write_aside(path, "exit", _checked(body), sync)


def read_exit(path: str) -> dict[str, Any] | None:
    """How the attempt ended; None when the record is missing, empty, torn, damaged or lacks what it must have."""
    data = _read(f"{path}/exit", RECORD_LIMIT)
    if not data:
        return None
    body = data[: -len(b" 01234567\n")]
    # Compared as bytes, not as numbers: no bit of the line may differ.
    record = _parse(body) if data == _checked(body) else None
    return record if record is not None and _is_whole(record) else None


def _is_whole(record: dict[str, Any]) -> bool:
    kinds = {name: type(record.get(name, ...)) for name in ("code", "signal", "outcome", "error", "started", "ended")}
    return (
        {kinds["code"], kinds["signal"]} <= {int, type(None)}
        and kinds["outcome"] is str
        and kinds["error"] in (str, type(None))
        # Comparing with itself: a moment that is no number is none.
        and all(kinds[name] in (int, float) and record[name] == record[name] for name in ("started", "ended"))
    )


def open_log(path: str, stream: str) -> int:
    """A descriptor the job may write its stream to."""
    return os.open(log_path(path, stream), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | _OURS, 0o600)


def open_read(path: str) -> int | None:
    """A descriptor to read one of our files, or None when there is no plain file of that name."""
    try:
        fd = os.open(path, _READ)
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def look(path: str, boot: str) -> Found:
    """Gather what is known of an attempt; `boot` is the boot id of now. OSError when that cannot be known now."""
    found = Found()
    _look_at_claim(path, found)
    # A claim says whose it is; reading the spec again would cost every look at a running job its environment.
    if found.job is None:
        _look_at_spec(path, found)
    if found.claimed and not found.void and found.boot == boot:
        found.shim_alive = found.shim is not None and processes.is_alive(*found.shim)
        found.command_alive = found.command is not None and processes.is_alive(*found.command)
    # Last, after the look at the processes: a shim that ended in between has left its record by now.
    found.exit = read_exit(path)
    if found.claimed and not found.void and found.boot == boot and not found.shim_alive and found.exit is None:
        found.members = orphans(path, found)
        # The shim may have been killed between the spawn and its note.
        found.command_alive = found.command_alive or (found.command is None and bool(found.members))
    return found


def orphans(path: str, found: Found) -> list[tuple[int, int]]:
    """What is left of an attempt whose shim is gone, as (pid, ticks); only for a claim of this boot."""
    if found.job is None or found.attempt is None:
        return []
    return processes.members(found.command, marks(path, found.job, found.attempt))


def _look_at_spec(path: str, found: Found) -> None:
    try:
        spec = read_spec(path)
    except (FileNotFoundError, ValueError):
        return
    found.job, found.attempt, found.boot = spec.job, spec.attempt, found.boot or spec.boot


def _look_at_claim(path: str, found: Found) -> None:
    data = _read(f"{path}/started", RECORD_LIMIT)
    if data is None:
        return
    found.claimed = True
    lines = data.split(b"\n")[:-1]  # a line without its newline was never finished
    claimed = (_parse(lines[0]) if lines else None) or {}
    found.void = claimed.get("void") is True
    found.job, found.attempt, found.boot = claimed.get("job"), claimed.get("attempt"), claimed.get("boot")
    found.shim = _identity(claimed)
    found.command = _identity(_parse(lines[1]) or {}) if len(lines) > 1 else None


def _identity(line: dict[str, Any]) -> tuple[int, int] | None:
    pid, ticks = line.get("pid"), line.get("ticks")
    return (pid, ticks) if isinstance(pid, int) and isinstance(ticks, int) else None


def _create_started(path: str, line: dict[str, Any]) -> bool:
    # Written under a name of its own and then linked: a link fails if the name exists, as O_EXCL does, and the file
    # has its line from the first moment it can be seen. A claim is never empty and never torn.
    aside = _unique(path, "started")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OURS, 0o600)
    try:
        try:
            _write_all(fd, _line({"v": FORMAT, **line}))
        finally:
            os.close(fd)
        os.link(aside, f"{path}/started")
    except FileExistsError:
        return False
    finally:
        os.unlink(aside)
    return True


def _write_aside(path: str, name: str, data: bytes, sync: bool) -> None:
    aside = _unique(path, name)
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OURS, 0o600)
    try:
        try:
            _write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(aside, f"{path}/{name}")
    except OSError:
        os.unlink(aside)
        raise
    if sync:
        _sync_dir(path)


def _unique(path: str, name: str) -> str:
    return f"{path}/.{name}.{os.getpid()}.{time.monotonic_ns()}"


def _sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OURS)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _make_dirs(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_dirs(os.path.dirname(path))
        _make_dirs(path)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _read(path: str, limit: int) -> bytes | None:
    fd = open_read(path)
    if fd is None:
        return None
    try:
        blocks = []
        while limit > 0:
            block = os.read(fd, limit)
            if not block:
                break
            limit -= len(block)
            blocks.append(block)
        return b"".join(blocks)
    finally:
        os.close(fd)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode("ascii") + b"\n"


def _checked(body: bytes) -> bytes:
    return b"%s %08x\n" % (body, zlib.crc32(body))


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
