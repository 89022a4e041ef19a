"""A machine over ssh that is slow: its worker goes on meanwhile, asks as little as it can, and says what waits."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.machines.lines import CountingTransport
from tests.machines.test_ssh_machine import a_machine
from tests.worker.test_machine import Stage, Test, on_stage, until

from grassq.core.syntax.file_words import SentTree
from grassq.files.blobs import BlobStore
from grassq.files.snapshot import snapshot
from grassq.machines.far_end import TAIL_MAX
from grassq.machines.far_stream import SLOWEST, FarStream
from grassq.machines.transport import LinkLost, LocalTransport, Stream, Transport
from grassq.run.lease_timer import boottime
from grassq.run.rundir import Lease


def play(folder: Path, transport: Transport, test: Test) -> None:
    home = folder / ".grass-ssh" / "5eed"
    asyncio.run(on_stage(lambda: a_machine(transport, folder, python=False), home, test))


def waiting(folder: Path, program: str, pattern: str) -> LocalTransport:
    """A machine whose program waits for a file `go` if its arguments match a pattern of sh."""
    tools = folder / "tools"
    tools.mkdir()
    wait = f"until [ -e {folder}/go ]; do sleep 0.05; done"
    (tools / program).write_text(f'#!/bin/sh\ncase "$*" in {pattern}) {wait} ;; esac\nexec /bin/{program} "$@"\n')
    (tools / program).chmod(0o755)
    return LocalTransport(str(folder), shell=("dash",), env={"PATH": f"{tools}:{os.defpath}"})


def test_a_removal_that_takes_long_holds_nothing_up(tmp_path: Path) -> None:
    line = waiting(tmp_path, "rm", '"-rf "*jobs/*')

    async def test(stage: Stage) -> None:
        stage.run(b"true")
        await stage.ended()
        stage.machine.forget([1], [])
        stage.run(b"true", job=2)
        await stage.ended(2)
        assert 1 in stage.machine.folders()
        (tmp_path / "go").touch()
        await until(lambda: stage.machine.folders() == [2])

    play(tmp_path, line, test)


def test_a_lease_that_is_renewed_while_files_are_on_their_way_is_the_one_that_counts(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    tree = snapshot(os.fsencode(tmp_path / "source"), BlobStore(os.fsencode(tmp_path / "blobs")))
    line = waiting(tmp_path, "tar", "*")
    first, second = (Lease(boottime() + length_s, length_s) for length_s in (300.0, 600.0))

    async def test(stage: Stage) -> None:
        stage.run(b"sleep", b"1000", lease=first, send=(SentTree(tree.id),))
        stage.machine.lease((1, 1), second)
        (tmp_path / "go").touch()
        await stage.runs()
        found = stage.machine.leased((1, 1))
        assert found is not None and found.length_s == second.length_s
        stage.machine.stop((1, 1), 0.0)
        await stage.ended()

    play(tmp_path, line, test)


def test_an_attempt_that_was_just_looked_at_is_watched_without_asking_again(tmp_path: Path) -> None:
    line = CountingTransport(LocalTransport(str(tmp_path), shell=("dash",)))

    async def test(stage: Stage) -> None:
        stage.run(b"sleep", b"1000")
        await stage.runs()
        asked = line.sent
        stage.machine.watch((1, 1))
        assert line.sent == asked
        stage.machine.stop((1, 1), 0.0)
        await stage.ended()

    play(tmp_path, line, test)


def test_a_large_request_has_more_time_than_a_small_one(tmp_path: Path) -> None:
    late = b"printf '\\nmarker\\n'; sleep 1; read -r token rest; printf '\\n%s end\\n' $token\n"

    def ask(size: int) -> dict[str, bytes]:
        stream = FarStream(LocalTransport(str(tmp_path), shell=("bash",)), "bash", "marker", 20.0, first=late)
        try:
            return stream.ask([b"x" * size], 0.5)
        finally:
            stream.close()

    assert ask(20 * SLOWEST) == {}
    with pytest.raises(LinkLost):
        ask(1)


class NoFiles:
    """A line whose sessions for files end at once."""

    def __init__(self, inner: LocalTransport) -> None:
        self._inner = inner

    def open(self, command: str) -> Stream:
        if " receive " in command:
            raise LinkLost(0, "the line is too bad for files")
        return self._inner.open(command)


def test_files_that_the_connection_does_not_carry_are_the_reason_why_a_job_waits(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    tree = snapshot(os.fsencode(tmp_path / "source"), BlobStore(os.fsencode(tmp_path / "blobs")))

    async def test(stage: Stage) -> None:
        stage.run(b"true", send=(SentTree(tree.id),))
        await until(lambda: stage.told("delayed"))
        why = next(report["why"] for report in stage.reports if report["event"] == "delayed")
        assert why == "its files wait for the connection: the line is too bad for files"

    play(tmp_path, NoFiles(LocalTransport(str(tmp_path), shell=("dash",))), test)


def test_the_last_lines_of_a_log_are_looked_for_only_in_its_last_part(tmp_path: Path) -> None:
    line = CountingTransport(LocalTransport(str(tmp_path), shell=("dash",)))

    async def test(stage: Stage) -> None:
        stage.run(b"sh", b"-c", b"echo first; head -c %d /dev/zero; printf '\\nlast'" % (2 * TAIL_MAX))
        await stage.ended()
        size = len(b"first\n") + 2 * TAIL_MAX + len(b"\nlast")
        before = line.received
        assert await stage.machine.logs.tail_offset(1, 1, "log", 1) == size - 4
        assert await stage.machine.logs.tail_offset(1, 1, "log", 2) == size - TAIL_MAX
        assert line.received - before < 2 * TAIL_MAX

    play(tmp_path, line, test)
