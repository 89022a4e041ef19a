"""A sweep from its words to its last job, through a real daemon."""

from __future__ import annotations

import json

from tests.e2e.world import Grass

SCRIPT = """
import pathlib, sys
place = pathlib.Path("seen-" + sys.argv[1])
code = int(sys.argv[1] == "2" and not place.exists())
place.touch()
sys.exit(code)
"""


def test_a_sweep_is_one_group_from_show_to_rerun(grass: Grass) -> None:
    grass.write("fit.py", SCRIPT)
    assert grass.enqueue("true") == 1
    done = grass("sweep", "python fit.py {x}", "-p", "x", "1", "2", "3", "--cpu=2", "--sampling-mode", "grid")
    assert done == (0, "sweep sweep-2: 3 jobs 2-4\n", "")
    assert grass("wait", "sweep-2").code == 1
    jobs = grass.jobs("sweep-2")
    assert [(job["id"], job["name"], job["state"]) for job in jobs] == [
        (2, "sweep-2", "succeeded"),
        (3, "sweep-2", "failed"),
        (4, "sweep-2", "succeeded"),
    ]
    assert [job["command"] for job in jobs] == [["python", "fit.py", x] for x in "123"]
    assert {job["request"]["cpu"] for job in jobs} == {2}
    assert grass("rerun", "--failed", "sweep-2") == (0, "job 5 is a rerun of job 3\n", "")
    assert grass("wait", "5").code == 0
    assert grass("wait", "sweep-2") == (0, "", ""), "of a job that was run again the last run counts"
    assert grass("wait", "3").code == 1
    again = grass("rerun", "--failed", "sweep-2")
    assert (again.code, again.err) == (0, "") and again.out.startswith("nothing to rerun")
    assert grass("rerun", "--failed", "-q") == (0, "", "")


def test_lines_are_read_by_a_shell_where_they_need_one(grass: Grass) -> None:
    out = grass.ok("sweep", "echo {x} $((1 + {x})) {{job.id}} > out-{x}", "-p", "x", "1", "2", "--name", "sums", "-q")
    assert out == "1-2\n"
    assert grass("wait", "sums").code == 0
    assert {grass.job(id_)["shell"] for id_ in (1, 2)} == {True}
    made = sorted((grass.cwd / f"out-{x}").read_text().split()[:2] for x in (1, 2))
    assert made == [["1", "2"], ["2", "3"]]


def test_a_sweep_is_all_or_nothing_and_killed_by_its_name(grass: Grass) -> None:
    wrong = grass("sweep", "ls {x}", "-p", "x", "a", "b\\", "--sampling-mode=grid")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("grass: line 2: the command ends in a backslash")
    wrong = grass("sweep", "sleep {x}", "-p", "x", "1", "--tries=2", "--retries=1")
    assert (wrong.code, wrong.err) == (
        2,
        "grass: give either --tries or --retries, not both; --retries 2 is --tries 3\n",
    )
    grass.nothing_was_stored()
    grass.ok("pause")
    told = json.loads(grass.ok("sweep", "sleep {x}", "-p", "x", "100", "200", "--retries=1", "--json"))
    assert told == {"first": 1, "count": 2, "queue": "default", "state": "queued", "name": "sweep-1", "sweep": 1}
    assert grass("kill", "sweep-1").code == 0
    assert [job["state"] for job in grass.jobs("sweep-1")] == ["cancelled", "cancelled"]
    assert grass.ok("sweep", "sleep {x}", "-p", "x", "1", "--n-samples", "0") == "0 jobs enqueued\n"


def test_a_job_is_tried_again_as_often_as_retries_says(grass: Grass) -> None:
    grass.ok("sweep", 'echo try >> tries; test "$(wc -l < tries)" -gt {x}', "-p", "x", "1", "--retries", "1")
    assert grass("wait", "sweep-1").code == 0
    assert (grass.cwd / "tries").read_text() == "try\ntry\n"
    grass.ok("enqueue", "--retries=0", "false")
    assert grass("wait", "2").code == 1
    assert grass.job(2)["attempt"] == 1
