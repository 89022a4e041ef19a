"""Trees over a real sshd, with each login shell: there and back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.machines.site import NOISY_BASHRC, MachineSite, SshMachine

from grassq.files.blobs import BlobStore
from grassq.files.snapshot import snapshot
from grassq.machines.far_end import FarEnd
from grassq.machines.far_files import TransferFailed
from grassq.machines.file_fetch import fetch
from grassq.machines.file_send import send
from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport

ODD = "-odd 'name\"\n$(x) \\n * é😀"


@contextmanager
def connected(site: MachineSite, machine: SshMachine, folder: Path) -> Iterator[tuple[SshTransport, FarEnd]]:
    transport = SshTransport(SshTarget(machine.name), str(folder / "m"), program=str(site.ssh))
    transport.connect()
    far = FarEnd(transport, "5eed", python=False)
    far.open()
    try:
        yield transport, far
    finally:
        far.close()
        transport.close()


@pytest.mark.parametrize("shell", ["bash", "fish", "tcsh", "busybox", "dash"])
def test_a_tree_goes_there_and_back(shared_site: MachineSite, tmp_path: Path, shell: str) -> None:
    noise = {".bashrc": NOISY_BASHRC} if shell == "bash" else {}
    machine = shared_site.machine(f"copy-{shell}", shell=shell, python=False, files=noise)
    root = tmp_path / "source"
    (root / ODD / "empty").mkdir(parents=True)
    (root / ODD / ODD).write_text("odd")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("run")
    (root / "large").write_bytes(os.urandom(40 << 20))
    blobs = BlobStore(os.fsencode(tmp_path / "blobs"))
    manifest = snapshot(os.fsencode(root), blobs)
    with connected(shared_site, machine, tmp_path) as (transport, far):
        place = far.greeting.user_home + b"/sent/tree"
        send(transport, far, manifest, blobs, place)
        fetch(transport, far, place, (b".",), os.fsencode(tmp_path / "back"))
    assert snapshot(os.fsencode(tmp_path / "back"), blobs).id == manifest.id


def test_a_home_that_is_too_small_is_said_before_anything_is_sent(site: MachineSite, tmp_path: Path) -> None:
    machine = site.machine("small", home_bytes=20 << 20)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data").write_bytes(os.urandom(12 << 20))
    blobs = BlobStore(os.fsencode(tmp_path / "blobs"))
    manifest = snapshot(os.fsencode(tmp_path / "source"), blobs)
    with connected(site, machine, tmp_path) as (transport, far):
        place = far.greeting.user_home + b"/sent/tree"
        # Twice its size: what is kept for later jobs, and the copy that the job may change.
        with pytest.raises(TransferFailed, match=r"needs 24 MiB, has \d+ MiB free in '/home/ann/sent/tree'"):
            send(transport, far, manifest, blobs, place)
    assert not (machine.home / "sent").exists()


def test_what_is_kept_for_later_jobs_makes_room_for_a_new_tree(site: MachineSite, tmp_path: Path) -> None:
    machine = site.machine("small", home_bytes=30 << 20)
    (tmp_path / "source").mkdir()
    blobs = BlobStore(os.fsencode(tmp_path / "blobs"))
    with connected(site, machine, tmp_path) as (transport, far):
        place = far.greeting.user_home + b"/tree"
        for _ in range(3):
            (tmp_path / "source" / "data").write_bytes(os.urandom(12 << 20))
            manifest = snapshot(os.fsencode(tmp_path / "source"), blobs)
            send(transport, far, manifest, blobs, place)
            assert (machine.home / "tree" / "data").stat().st_size == 12 << 20
            shutil.rmtree(machine.home / "tree")
