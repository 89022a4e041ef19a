"""--output FILE: the log of a job under a name of the user, by the command line and the SDK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.world import Grass, eventually

import grassq

#: Writes alternating lines to both streams, without a buffer.
ALTERNATING = """
import os
for number in range(500):
    os.write(1, b"out %d\\n" % number)
    os.write(2, b"err %d\\n" % number)
"""
LINES = [f"{stream} {number}" for number in range(500) for stream in ("out", "err")]


def test_both_streams_are_in_the_file_in_order_and_the_file_outlives_the_job(grass: Grass) -> None:
    id_ = grass.enqueue("--output", "logs/new/a.out", "--", sys.executable, "-c", ALTERNATING)
    job = grass.until(id_, "succeeded")
    file = grass.cwd / "logs/new/a.out"
    assert file.read_text().splitlines() == LINES and grass.log(id_).splitlines() == LINES
    assert job["output"] == str(file) and f"output    {file}" in grass.ok("show", str(id_))
    grass.ok("clean", str(id_))
    eventually(lambda: not (grass.home / f"jobs/{id_}").exists(), "the run dir is gone")
    assert file.read_text().splitlines() == LINES

    kept = "a file of the user"
    file.write_text(kept)
    assert "exists" in grass.refuses(5, "enqueue", "--output", "logs/new/a.out", "true")
    assert "--split" in grass.refuses(2, "enqueue", "--split", "--output", "b.out", "true")
    assert "cannot be made" in grass.refuses(2, "enqueue", "--output", "logs/new/a.out/b", "true")
    assert file.read_text() == kept and not (grass.cwd / "b.out").exists()


def test_a_name_is_taken_from_the_submission_on_and_a_rerun_has_a_file_of_its_own(grass: Grass) -> None:
    gate = grass.gated("gate", "--output", "first.out", "--cpu", "8")
    waiting = grass.enqueue("--output", "second.txt", "--cpu", "8", "--", "sh", "-c", "echo $GRASS_JOB_ID; exit 3")
    assert (grass.cwd / "second.txt").read_text() == "", "no other job gets the name"
    assert "exists" in grass.refuses(5, "enqueue", "--output", "second.txt", "true")
    assert "cannot be edited" in grass.refuses(2, "edit", str(waiting), "--set", "output=x")
    grass.open_gate("gate")
    assert grass.until(waiting, "failed")["exit_code"] == 3
    [again] = grass.json("rerun", str(waiting))["ids"]
    assert grass.until(again, "failed")["output"] == str(grass.cwd / f"second.{again}.txt")
    [third] = grass.json("rerun", str(again))["ids"]
    grass.until(third, "failed")
    found = {path.name: path.read_text() for path in grass.cwd.glob("second*")}
    assert found == {name: f"{id_}\n" for name, id_ in zip(_names(again, third), (waiting, again, third), strict=True)}
    assert grass.until(gate, "succeeded")["output"] == str(grass.cwd / "first.out")


def _names(again: int, third: int) -> list[str]:
    return ["second.txt", f"second.{again}.txt", f"second.{third}.txt"]


def test_many_jobs_have_files_by_their_ids_and_a_second_try_takes_the_name_over(
    grass: Grass, client: grassq.Client, tmp_path: Path
) -> None:
    with client:
        jobs = client.submit_many(["echo a", "echo b"], output=tmp_path / "{job.name}-{job.id}.out", name="many")
        assert [job.result(timeout=30) for job in jobs] == [None, None]
    assert [(tmp_path / f"many-{job.id}.out").read_text() for job in jobs] == ["a\n", "b\n"]
    done = grass.program("sh", "-c", "printf 'echo 1\\necho 2\\n' | grass enqueue --stdin --output one.out")
    assert done.code == 5 and "exists" in done.err and not (grass.cwd / "one.out").exists()
    retried = grass.enqueue("--tries", "2", "--output", "t.out", "--", "sh", "-c", "echo $GRASS_ATTEMPT; exit 1")
    grass.until(retried, "failed")
    assert (grass.cwd / "t.out").read_text() == "2\n" and grass.ok("log", str(retried), "--attempt", "1") == "1\n"


def test_a_file_on_another_file_system_is_live_and_whole(grass: Grass) -> None:
    other = Path("/dev/shm") / f"grass-{grass.home.parent.name}"
    try:
        line = f"echo begun; until [ -e {grass.cwd}/gate ]; do sleep 0.02; done; echo over"
        id_ = grass.enqueue("--output", other / "x.out", "--shell", "--", line)
        eventually(lambda: (other / "x.out").exists() and (other / "x.out").read_text() == "begun\n", "the live file")
        grass.open_gate("gate")
        assert grass.until(id_, "succeeded")["error"] is None
        assert (other / "x.out").read_text() == "begun\nover\n" and not (other / "x.out").is_symlink()
    finally:
        subprocess.run(["rm", "-rf", other], check=True)
