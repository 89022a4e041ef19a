"""What `doctor` says of run dirs that no stored job accounts for."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.builders import BOOT
from tests.worker.run_specs import a_start, launch_of

from grassq.run import rundir
from grassq.worker import strays


def a_run_dir(home: Path, job: int, attempt: int, *words: bytes) -> str:
    """A run dir as a worker leaves it."""
    path = rundir.attempt_dir(str(home), job, attempt)
    rundir.prepare(path, launch_of(a_start(command=words)).content)
    return path


def test_a_run_dir_without_a_job_is_named_with_the_command_that_submits_it_again(tmp_path: Path) -> None:
    a_run_dir(tmp_path, 7, 1, b"echo")
    a_run_dir(tmp_path, 7, 2, b"echo", b"two words")
    (tmp_path / "jobs/8").mkdir()
    seven, eight = strays.of_jobs(str(tmp_path), [7, 8], BOOT)
    assert (seven["path"], eight["path"], eight["again"]) == ("jobs/7/2", "jobs/8", "")
    start = a_start()
    assert (
        seven["again"]
        == f"cd {start.spec.cwd.decode()} && grass enqueue {start.spec.queue} --name=train -- echo 'two words'"
    )
    assert shlex.split(seven["again"])[-2:] == ["echo", "two words"]


def test_only_what_is_marked_is_named_as_unknown_to_a_restored_broker(tmp_path: Path) -> None:
    a_run_dir(tmp_path, 1, 1, b"true")
    rundir.mark(a_run_dir(tmp_path, 2, 3, b"true"), rundir.UNRECORDED)
    (stray,) = strays.unrecorded(str(tmp_path), BOOT)
    assert stray["path"] == "jobs/2/3" and "restored from a backup" in str(stray["why"])
