"""Files of jobs on machines that are full, noisy, or lack a program: what is said, and what is left there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.small_disk import fill, free, mounted, needs_root
from tests.machines.far_site import SHELLS, FarSite
from tests.machines.test_slow_machine import play
from tests.worker.test_machine import Stage, until

from grassq.core.syntax.file_words import SentTree
from grassq.files.blobs import BlobStore
from grassq.files.snapshot import snapshot
from grassq.machines.file_fetch import fetch
from grassq.machines.transport import LocalTransport


def tool(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.fixture(params=SHELLS)
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FarSite]:
    with closing(FarSite(tmp_path, request.param)) as found:
        yield found


def brought(side: FarSite, transport: LocalTransport, to: Path) -> list[str]:
    """Fetch everything that a job left; return what could not be read."""
    (side.home / "work").mkdir()
    (side.home / "work" / "result").write_text("42")
    notes: list[str] = []
    fetch(transport, side.far, os.fsencode(side.home / "work"), (b".",), os.fsencode(to), note=notes.append)
    assert (to / "result").read_text() == "42"
    return notes


def test_what_a_login_shell_writes_to_stderr_is_no_trouble_of_files(side: FarSite, tmp_path: Path) -> None:
    noisy = tool(tmp_path / "tools", "noisy", 'echo "setlocale: cannot change locale" >&2\nexec sh "$@"')
    assert brought(side, LocalTransport(str(side.home), shell=(str(noisy),)), tmp_path / "here") == []


def test_what_cannot_be_read_there_is_named(side: FarSite, tmp_path: Path) -> None:
    found = "/usr/bin/find" if side.shell != "busybox" else "busybox find"
    tool(tmp_path / "tools", "find", f'echo "find: secret: \x1b[31mdenied" >&2\necho more >&2\nexec {found} "$@"')
    there = LocalTransport(str(side.home), env={"PATH": f"{tmp_path}/tools:{os.defpath}"})
    (note,) = brought(side, there, tmp_path / "here")
    assert note.endswith(r"cannot be read there: find: secret: \x1b[31mdenied")


@needs_root
def test_an_attempt_is_stopped_also_when_its_disk_is_full(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=4m") as disk, closing(FarSite(disk, "dash")) as side:
        side.begin(1, "sleep", "1000")
        fill(disk)
        side.far.stop((1, 1), 0.0)
        side.look_until(1, lambda found: not found.command_alive)
        free(disk)
        assert side.ended(1)["outcome"] == "cancelled"


def test_files_that_cannot_be_sent_at_all_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    tree = snapshot(os.fsencode(tmp_path / "source"), BlobStore(os.fsencode(tmp_path / "blobs")))
    tool(tmp_path / "tools", "tar", "echo 'tar: not today' >&2; exit 2")
    line = LocalTransport(str(tmp_path), shell=("dash",), env={"PATH": f"{tmp_path}/tools:{os.defpath}"})

    async def test(stage: Stage) -> None:
        stage.run(b"true", send=(SentTree(tree.id),))
        await until(lambda: stage.told("refused"))
        (why,) = [report["why"] for report in stage.reports if report["event"] == "refused"]
        assert why.startswith("its files cannot be sent: ") and why.endswith("tar: not today")

    play(tmp_path, line, test)


def test_a_job_that_succeeded_leaves_only_what_it_made(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub" / "deep").mkdir(parents=True)
    for name in ("kept", "changed", "sub/deep/odd \n name", "sub/touched"):
        (source / name).write_text("as it was sent")
    (source / "link").symlink_to("kept")
    tree = snapshot(os.fsencode(source), BlobStore(os.fsencode(tmp_path / "blobs")))
    made = b"echo new >changed; touch -r kept sub/touched; mkdir own empty; cp -p kept own/copy; exit $0"

    async def test(stage: Stage) -> None:
        for job, code in ((1, b"0"), (2, b"1")):
            stage.run(b"sh", b"-c", made, code, job=job, send=(SentTree(tree.id), SentTree(tree.id, b"sub/more")))
            await until(lambda: stage.machine.look((job, 1)).exit is not None)  # noqa: B023
            await stage.collected(job)
        left = tmp_path / ".grass-ssh" / "5eed" / "jobs"
        await until(lambda: not (left / "1" / "1" / "tree" / "sub" / "deep").exists())
        await until(lambda: not (left / "1" / "1" / "tree" / "kept").exists())
        found = {str(path.relative_to(left / "1" / "1" / "tree")) for path in (left / "1" / "1" / "tree").rglob("*")}
        assert found == {"changed", "sub", "sub/touched", "own", "own/copy", "empty"}
        assert (left / "2" / "1" / "tree" / "sub" / "more" / "kept").exists(), "a job that failed is kept whole"

    play(tmp_path, LocalTransport(str(tmp_path), shell=("dash",)), test)
