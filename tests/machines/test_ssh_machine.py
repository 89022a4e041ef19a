"""What every machine promises its worker, on machines behind a shell: sh or Python there, through ssh or without."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines.site import MachineSite
from tests.worker import test_machine as promises
from tests.worker.test_machine import Stage, Test, on_stage

from grassq.files.blobs import BlobStore
from grassq.machines.far_end import FarEnd
from grassq.machines.far_job_files import FarJobFiles
from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.ssh_machine import SshMachine
from grassq.machines.transport import LocalTransport, Transport

STORE = "5eed"


def a_machine(transport: Transport, folder: Path, *, python: bool) -> SshMachine:
    far = FarEnd(transport, STORE, python=python)
    assert (far.open().python is not None) is python
    files = FarJobFiles(transport, far, BlobStore(os.fsencode(folder / "blobs")), str(folder / "notes"), "m")
    return SshMachine(transport, far, files, store=STORE, capacity=None)


@pytest.fixture(params=["dash", "bash", "busybox", "python", "ssh with python", "ssh without"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Test], None]]:
    """Runs a test on a machine of each kind; what it started is gone afterwards."""
    kind = request.param
    if kind.startswith("ssh"):
        site: MachineSite = request.getfixturevalue("site")
        there = site.machine("alpha", python=kind == "ssh with python", shell="bash")
        transport = SshTransport(SshTarget("alpha"), str(tmp_path / "master"), program=str(site.ssh))
        transport.connect()
        yield lambda test: asyncio.run(
            on_stage(lambda: a_machine(transport, tmp_path, python=kind.endswith("python")), there.home, test)
        )
        transport.close()
        return
    shell = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh"), "python": ("sh",)}[kind]
    local = LocalTransport(str(tmp_path), shell=shell)
    home = tmp_path / ".grass-ssh" / STORE
    yield lambda test: asyncio.run(on_stage(lambda: a_machine(local, tmp_path, python=kind == "python"), home, test))


def test_an_order_over_a_lost_connection_is_no_trouble_of_the_job(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        other = FarEnd(LocalTransport(str(tmp_path)), STORE, python=False)
        other.open()
        other.lead()
        other.close()
        start = stage.run(b"true")
        assert stage.machine.describe()["lost"] == "another connection has taken over"
        again = a_machine(LocalTransport(str(tmp_path)), tmp_path, python=False)
        assert not again.look(start.id).claimed
        await again.close()

    local = LocalTransport(str(tmp_path))
    home = tmp_path / ".grass-ssh" / STORE
    asyncio.run(on_stage(lambda: a_machine(local, tmp_path, python=False), home, test))


def test_the_output_file_of_a_job_there_is_told_to_be_missing(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        stage.run(b"echo", b"text", output=os.fsencode(tmp_path / "there.out"))
        end = await stage.collected()
        assert end.code == 0 and end.error is not None and "grass log 1 > FILE" in end.error
        assert (await stage.machine.logs.read(1, 1, "log", 0))[0] == b"text\n"

    local = LocalTransport(str(tmp_path))
    home = tmp_path / ".grass-ssh" / STORE
    asyncio.run(on_stage(lambda: a_machine(local, tmp_path, python=False), home, test))
    assert not (tmp_path / "there.out").exists()


#: Every test of `tests/worker/test_machine.py`, on these machines.
globals().update({name: test for name, test in vars(promises).items() if name.startswith("test_")})
