"""Identify processes, and end a whole tree of them without ever signalling a stranger.

A process is its pid and the tick it started at (and the boot id, which callers compare). Every signal goes through a
pidfd that was opened first and verified after, so a pid that was reused in between is never hit.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from collections.abc import Callable

    # state, parent, session, start ticks, threads
    _Stat = tuple[bytes, int, int, int, int]

libc = ctypes.CDLL(None, use_errno=True)
# Rounds of "stop every new process" before killing: the next call catches a tree that forks faster than this.
FREEZE_ROUNDS = 8

_PR_SET_CHILD_SUBREAPER = 36
_STAT_MAX = 1024
_ENVIRON_MAX, _STATUS_MAX = 4 << 20, 16 << 10
# Stopped by a signal or by a tracer; these, held up in the kernel, or dead.
_STOPPED, _STILL = (b"T", b"t"), (b"T", b"t", b"D", b"Z", b"X")
# Gone, or not ours to look at. Any other error is raised: treating it as "gone" would free devices that are in use.
_NOT_THERE = (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM)
# Linux before 5.3 has no pidfd, and the filters of many containers forbid what they do not know.
_NO_PIDFD = (errno.ENOSYS, errno.EPERM)


def boot_id() -> str:
    """Return the id the kernel drew at boot; every process of another boot is gone."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read(64).strip()


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if it is gone or a zombie."""
    stat = _stat(pid)
    return stat[3] if stat is not None and _lives(stat) else None


def birth_ticks(pid: int) -> int | None:
    """Return the same as `start_ticks`, also for a zombie: for a parent that has not reaped it yet."""
    stat = _stat(pid)
    return None if stat is None else stat[3]


def is_alive(pid: int, ticks: int) -> bool:
    """Tell whether exactly this process still runs."""
    return start_ticks(pid) == ticks


def open_verified(pid: int, ticks: int) -> int | None:
    """Return a pidfd of exactly this process, or None; the caller closes it."""
    try:
        fd = os.pidfd_open(pid)
    except OSError as exc:
        if exc.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):
            return None
        raise
    # Opened before it is verified: the descriptor pins the process, so what is verified now stays true.
    if start_ticks(pid) == ticks:
        return fd
    os.close(fd)
    return None


def signal_verified(pid: int, ticks: int, sig: int) -> bool:
    """Send a signal to exactly this process; False if it is gone or may not be signalled."""
    try:
        fd = open_verified(pid, ticks)
    except (AttributeError, OSError) as exc:
        # A lone shim may meet Python 3.8, which has no pidfd.
        if isinstance(exc, OSError) and exc.errno not in _NO_PIDFD:
            raise
        return _kill_verified(pid, ticks, sig)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, sig)
    except ProcessLookupError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_PIDFD:
            raise
        # Also where the process may not be signalled at all: that gives the same answer once more.
        return _kill_verified(pid, ticks, sig)
    finally:
        os.close(fd)
    return True


def _kill_verified(pid: int, ticks: int, sig: int) -> bool:
    """Do the same without a pidfd: a pid would have to be reused between the look and the signal."""
    if start_ticks(pid) != ticks:
        return False
    try:
        os.kill(pid, sig)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_all(found: list[tuple[int, int]], sig: int) -> int:
    """Send a signal to each of these processes; return how many it reached."""
    return sum(signal_verified(pid, ticks, sig) for pid, ticks in found)


def exit_code(status: int) -> int:
    """Return the exit code of a status of wait, or the negative number of the signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def descriptors(pid: int) -> set[bytes]:
    """Return what the descriptors of a process are of, such as b"socket:[7]" or a path; nothing if it is gone."""
    folder = b"/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return set()
        raise
    found = set()
    for name in names:
        with contextlib.suppress(OSError):  # closed by now
            found.add(os.readlink(b"%s/%s" % (folder, name)))
    return found


def descendants(root: int, is_kept: Callable[[int], bool] | None = None) -> list[tuple[int, int]]:
    """Return every living process below `root` as (pid, ticks), parents first, without kept ones and their children."""
    return _below(_table(), [root], is_kept)


def terminate_descendants(root: int, is_kept: Callable[[int], bool] | None = None, *, wakes: bool = True) -> int:
    """Send SIGTERM to everything below `root` except kept processes; return how many were asked.

    A stopped process keeps its TERM pending until it is continued: unless `wakes` is set, it never runs its handler.
    """
    found = descendants(root, is_kept)
    asked = signal_all(found, signal.SIGTERM)
    if wakes:
        signal_all(found, signal.SIGCONT)
    return asked


def warn_descendants(root: int, number: int, is_kept: Callable[[int], bool] | None = None) -> int:
    """Send a signal to everything below `root` that handles it, except kept processes; return how many there were."""
    return signal_all([each for each in descendants(root, is_kept) if handles(each[0], number)], number)


def handles(pid: int, number: int) -> bool:
    """Tell whether a process handles a signal, or has blocked it to wait for it: then the signal does not end it."""
    for line in _read_proc(pid, "status", _STATUS_MAX).splitlines():
        name, _, mask = line.partition(b":")
        if name in (b"SigBlk", b"SigCgt") and int(mask, 16) >> (number - 1) & 1:
            return True
    return False


def kill_descendants(root: int, is_kept: Callable[[int], bool] | None = None) -> int:
    """Kill everything below `root` except kept processes; return how many. Repeat until wait finds no child."""
    frozen: dict[int, int] = {}
    for _ in range(FREEZE_ROUNDS):
        # A stopped process cannot fork, so each round has only the children of the round before left to find.
        new = [(pid, ticks) for pid, ticks in descendants(root, is_kept) if frozen.get(pid) != ticks]
        if not new:
            break
        signal_all(new, signal.SIGSTOP)
        frozen.update(new)
    signal_all(list(frozen.items()), signal.SIGKILL)
    return len(frozen)


def stop_descendants(root: int, is_kept: Callable[[int], bool] | None = None) -> bool:
    """Stop everything below `root` except kept processes; tell whether all of it stands still, else call it again.

    A process that ends while the table is read may leave a child that the table lacks. The process itself is in the
    table then, dead, because its parent has not waited for it: so two tables in a row must be equal, the dead included.
    """
    return stop_all(lambda: _below(_table(), [root], is_kept, with_dead=True))


def stop_all(look: Callable[[], list[tuple[int, int]]]) -> bool:
    """Stop all processes that a look finds, also at a further look; tell whether all of them stand still."""
    before: list[tuple[int, int]] | None = None
    for _ in range(FREEZE_ROUNDS):
        found = look()
        if found == before and all(_stands_still(pid) for pid, _ in found):
            return True
        signal_all([each for each in found if not is_stopped(*each)], signal.SIGSTOP)
        before = found
    return False


def continue_descendants(root: int, is_kept: Callable[[int], bool] | None = None) -> None:
    """Let everything below `root` go on that is stopped, except kept processes."""
    signal_all(descendants(root, is_kept), signal.SIGCONT)


def is_stopped(pid: int, ticks: int) -> bool:
    """Tell whether this process is stopped, or gone."""
    stat = _stat(pid)
    return stat is None or stat[3] != ticks or not _lives(stat) or stat[0] in _STOPPED


def _stands_still(pid: int) -> bool:
    """Tell whether no thread of a process that got SIGSTOP runs: a thread that the kernel holds up stops after it.

    One that waits for a child it made by vfork is held up as long as the child is stopped.
    """
    stat = _stat(pid)
    if stat is None or stat[0] in _STOPPED:
        return True
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return True
        raise
    states = [found[0] for found in map(_stat, map(int, threads)) if found is not None]
    return all(state in _STILL for state in states)


def members(command: tuple[int, int] | None, marks: list[bytes]) -> list[tuple[int, int]]:
    """Return what is left of a command whose shim is gone: its tree, its session and all processes with its marks.

    `marks` are complete `NAME=value` entries; a process belongs if its environment has every one of them. The session
    counts only while its leader, the command, is alive: afterwards its number may belong to another session.
    """
    table = _table()
    ours = [pid for pid in table if _is_marked(pid, marks)]
    if command is not None:
        predecessor = table.get(command[0])
        if predecessor is not None and predecessor[3] == command[1]:
            ours.append(command[0])
            ours += [pid for pid, stat in table.items() if stat[2] == command[0]]
    # A process never ends itself, whatever it inherited.
    kept = {0, 1, os.getpid()}
    roots = [pid for pid in ours if pid not in kept]
    found = dict(_below(table, roots))
    found.update((pid, table[pid][3]) for pid in roots if _lives(table[pid]))
    return sorted((pid, ticks) for pid, ticks in found.items() if pid not in kept)


def set_subreaper() -> None:
    """Make this process the parent of every orphan below it, so that none escapes."""
    checked(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def checked(result: int) -> int:
    """Return the result of a `libc` call; raise OSError if it is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _stat(pid: int) -> _Stat | None:
    data = _read_proc(pid, "stat", _STAT_MAX)
    # The name in parentheses may itself hold spaces and parentheses: only what follows the last one is fixed.
    fields = data[data.rfind(b")") + 2 :].split(None, 20)
    if len(fields) < 20:
        return None
    return fields[0], int(fields[1]), int(fields[3]), int(fields[19]), int(fields[17])


def _lives(stat: _Stat) -> bool:
    # A thread group whose first thread has ended shows as a zombie while its other threads run on.
    return stat[0] not in (b"Z", b"X") or stat[4] > 1


def _table() -> dict[int, _Stat]:
    table = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            stat = _stat(int(name))
            if stat is not None:
                table[int(name)] = stat
    return table


def _below(
    table: dict[int, _Stat], roots: list[int], is_kept: Callable[[int], bool] | None = None, *, with_dead: bool = False
) -> list[tuple[int, int]]:
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat[1], []).append(pid)
    found = []
    seen = set(roots)
    queue = list(roots)
    for parent in queue:
        for pid in children.get(parent, ()):
            if pid in seen:
                continue
            seen.add(pid)
            # Asked after the table was read: a new child of `root` is in the table below its old parent.
            if is_kept is not None and is_kept(pid):
                continue
            queue.append(pid)
            if with_dead or _lives(table[pid]):
                found.append((pid, table[pid][3]))
    return found


def _is_marked(pid: int, marks: list[bytes]) -> bool:
    entries = _read_proc(pid, "environ", _ENVIRON_MAX).split(b"\0")
    return bool(marks) and all(mark in entries for mark in marks)


def _read_proc(pid: int, name: str, limit: int) -> bytes:
    fd = -1
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        data = os.read(fd, min(limit, _STAT_MAX))
        while name != "stat" and len(data) < limit:
            block = os.read(fd, limit - len(data))
            if not block:
                break
            data += block
        return data
    except OSError as exc:
        if exc.errno in _NOT_THERE:
            return b""
        raise
    finally:
        if fd >= 0:
            os.close(fd)
