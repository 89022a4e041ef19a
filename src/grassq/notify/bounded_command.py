"""Runs a command for a limited time, keeps the beginning of its output, and leaves nothing of it behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from msgspec import Struct

#: The bytes of output that are kept; the rest is read and thrown away.
OUTPUT_MAX = 4096
#: What a command is given on stdin must fit into a pipe, so that writing it never blocks.
STDIN_MAX = 60_000
READ_SIZE = 65_536
#: How long a killed command is waited for.
KILL_S = 1.0


class CommandEnd(Struct, frozen=True):
    """How a command ended: its exit code, negative for a signal, None if it was killed at the limit."""

    code: int | None
    output: bytes


async def run_bounded(
    argv: Sequence[str], given: bytes, *, env: Mapping[bytes, bytes], cwd: bytes, limit_s: float
) -> CommandEnd:
    """Run a command in a session of its own; at the limit, at its end and when cancelled, kill what it left.

    Raise OSError if the command cannot be started, or was killed at once because it cannot be watched.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        try:
            process = _spawn(argv, given, writing, env, cwd)
        finally:
            os.close(writing)
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            _kill(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, KILL_S)
            raise
        try:
            output, in_time = await _watch(pidfd, reading, limit_s)
        finally:
            _kill(process)
            # A process that the kernel does not let go yet is reaped later, by `subprocess` itself.
            await _has_ended(pidfd, KILL_S)
            code = process.poll()
            os.close(pidfd)
    finally:
        os.close(reading)
    return CommandEnd(code if in_time else None, output)


def _spawn(
    argv: Sequence[str], given: bytes, output: int, env: Mapping[bytes, bytes], cwd: bytes
) -> subprocess.Popen[bytes]:
    source, sink = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(sink, given[:STDIN_MAX])
        os.close(sink)
        os.set_blocking(output, True)
        return subprocess.Popen(
            argv, stdin=source, stdout=output, stderr=output, env=dict(env), cwd=cwd, start_new_session=True
        )
    finally:
        os.close(source)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command that was not waited for yet, so that no other process can have its number, and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _watch(pidfd: int, reading: int, limit_s: float) -> tuple[bytes, bool]:
    """Wait until the command ends or the limit is over; return the beginning of its output, and whether it ended."""
    loop = asyncio.get_running_loop()
    kept = bytearray()

    def read() -> None:
        try:
            data = os.read(reading, READ_SIZE)
        except BlockingIOError:
            return
        kept.extend(data[: OUTPUT_MAX - len(kept)])
        if not data:
            loop.remove_reader(reading)

    loop.add_reader(reading, read)
    try:
        in_time = await _has_ended(pidfd, limit_s)
        read()
        return bytes(kept), in_time
    finally:
        loop.remove_reader(reading)


async def _has_ended(pidfd: int, limit_s: float) -> bool:
    """Wait until a process has ended; return False when the limit is over."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(limit_s):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True
