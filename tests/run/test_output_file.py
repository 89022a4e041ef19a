"""The file of --output: the log under another name, on one file system or two, and never over another file."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_spec as a_job_spec
from tests.run.harness import a_spec, mode_of, prepare

from grassq import atomic_files
from grassq.run import attempt_notes, rundir
from grassq.run.output import output_file
from grassq.web.submit import outputs


class Attempts:
    """The attempts of one job, as a shim sees them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.file = folder / "deep" / "er" / "train.out"

    def place(
        self, attempt: int = 1, text: bytes = b"", umask: int = 0o22, *, made: bool = True
    ) -> tuple[str, rundir.RunSpec, str | None]:
        """Place the output file of an attempt that writes a text."""
        path = rundir.attempt_dir(str(self.home), 7, attempt)
        prepare(path, a_spec(7, ["x"], path, attempt=attempt, output=str(self.file), umask=umask, output_made=made))
        spec = rundir.read_spec(path)
        log = rundir.open_log(path, "log")
        output_file.place(path, spec, log)
        os.write(log, text)
        os.close(log)
        note = attempt_notes.read_output(path)
        assert note is not None
        return path, spec, note[2]


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path)


@pytest.fixture
def two_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file were on another file system than the run dir."""

    def link(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", link)


def test_the_file_is_the_log_itself(attempts: Attempts) -> None:
    path, spec, remark = attempts.place(text=b"a\nb\n", umask=0o27)
    assert remark is None
    assert attempts.file.samefile(rundir.log_path(path, "log"))
    assert mode_of(str(attempts.file)) == 0o640
    record: dict[str, Any] = {"error": None}
    output_file.complete(path, spec, record)
    assert (attempts.file.read_bytes(), record["error"]) == (b"a\nb\n", None)
    assert [entry.name for entry in attempts.file.parent.iterdir()] == ["train.out"]


@pytest.mark.usefixtures("two_disks")
def test_on_another_file_system_it_is_a_link_and_then_a_copy(attempts: Attempts) -> None:
    path, spec, remark = attempts.place(text=b"live\n", umask=0o77)
    assert remark is None and attempts.file.is_symlink() and attempts.file.read_bytes() == b"live\n"
    record: dict[str, Any] = {"error": None}
    output_file.complete(path, spec, record)
    assert not attempts.file.is_symlink() and attempts.file.read_bytes() == b"live\n" and record["error"] is None
    assert mode_of(str(attempts.file)) == 0o600
    assert [entry.name for entry in attempts.file.parent.iterdir()] == ["train.out"]


@pytest.mark.parametrize("disks", ["one", "two"])
def test_a_later_attempt_of_the_job_takes_the_name_over(
    attempts: Attempts, disks: str, request: pytest.FixtureRequest
) -> None:
    if disks == "two":
        request.getfixturevalue("two_disks")
    path, spec, _ = attempts.place(1, b"first\n")
    output_file.complete(path, spec, {"error": None})
    path, spec, remark = attempts.place(3, b"third\n")  # the second attempt was given up before its start
    output_file.complete(path, spec, {"error": None})
    assert remark is None and attempts.file.read_bytes() == b"third\n"
    assert Path(rundir.log_path(rundir.attempt_dir(str(attempts.home), 7, 1), "log")).read_bytes() == b"first\n"


def test_the_empty_file_of_the_submission_is_taken_and_another_one_never(attempts: Attempts) -> None:
    attempts.file.parent.mkdir(parents=True)
    attempts.file.touch()
    assert "exists" in (attempts.place(1, made=False)[2] or ""), "no submission made the file"
    assert attempts.file.stat().st_nlink == 1 and attempts.file.read_bytes() == b""
    assert attempts.place(2)[2] is None
    attempts.file.unlink()
    attempts.file.write_text("mine")
    path, spec, _ = attempts.place(3, b"text")
    record: dict[str, Any] = {"error": None}
    output_file.complete(path, spec, record)
    assert "exists" in record["error"] and "grass log 7" in record["error"]
    assert attempts.file.read_text() == "mine"


def test_a_file_that_another_program_makes_meanwhile_is_left_alone(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def slow_link(source: str, target: str, **more: Any) -> None:
        link(source, target, **more)
        if source.endswith("/log"):
            attempts.file.write_text("not ours")

    monkeypatch.setattr(os, "link", slow_link)
    path, _, remark = attempts.place(text=b"a\n", made=False)
    assert remark is not None and "exists" in remark
    assert attempts.file.read_text() == "not ours" and [*attempts.file.parent.iterdir()] == [attempts.file]
    assert Path(rundir.log_path(path, "log")).read_bytes() == b"a\n"


def test_a_folder_that_cannot_be_made_is_a_remark(attempts: Attempts) -> None:
    attempts.file.parent.parent.write_text("no folder")
    _, _, remark = attempts.place()
    assert remark is not None and "was not written" in remark


def test_a_spec_of_an_earlier_release_has_no_output(tmp_path: Path) -> None:
    path = rundir.attempt_dir(str(tmp_path), 1, 1)
    assert rundir.RunSpec(json.loads(json.dumps(a_spec(1, ["x"], path)))).output == b""


def test_the_folders_have_the_rights_that_the_user_gives_and_may_be_deep(attempts: Attempts) -> None:
    before = os.umask(0o77)  # that of the daemon
    try:
        outputs.reserve([replace(a_job_spec(), output=os.fsencode(attempts.file), umask=0o2)])
        assert [mode_of(str(each)) for each in (attempts.file.parent, attempts.file)] == [0o775, 0o664]
        deep = attempts.file.parent / "/".join("a" * 1200)
        atomic_files.make_shared_dirs(str(deep), 0o22)
        assert mode_of(str(deep)) == 0o755
        os.removedirs(deep)  # pytest cannot remove a folder that is so deep
    finally:
        os.umask(before)
