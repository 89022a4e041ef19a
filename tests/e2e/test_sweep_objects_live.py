"""Arrays, lists, ranges, sweeps that stop and sweeps in files, by the command line and the SDK, with a real daemon."""

from __future__ import annotations

import json
import re

import pytest
from tests.e2e.world import Grass

import grassq
from grassq.errors import BadInput


def test_arrays_and_lists_are_one_job_for_each_index_or_row(grass: Grass) -> None:
    show = 'printf "%s " $GRASS_ARRAY_INDEX $GRASS_ARRAY_COUNT $GRASS_ARRAY_MIN $GRASS_ARRAY_MAX "$V" "$0"'
    words = ["--array", "1-5:2%2", "--name", "a-{index}", "--env", "V=v{index}", "--output", "o-{index}"]
    assert grass.ok("enqueue", *words, "--", "sh", "-c", show, "{index}{{index}}") == "sweep a-{index}: 3 jobs 1-3\n"
    jobs = grass.ended(1, 2, 3)
    assert [(job["name"], job["array_index"], job["sweep"]) for job in jobs] == [
        ("a-1", 1, 1),
        ("a-3", 3, 1),
        ("a-5", 5, 1),
    ]
    assert grass.log(2) == "3 3 1 5 v3 3{index} " == (grass.cwd / "o-3").read_text()
    assert [job["id"] for job in grass.jobs("sweep:1")] == [1, 2, 3]

    grass.write("p.csv", 'file,n\n"a b",1\n$(id);x,2\n{job.id},3\n')
    grass.ok("enqueue", "--each", "p.csv", "--name", "f-{n}", "--", "printf", "%s|", "{file}", "{n}", "{job.id}")
    assert [grass.log(id_) for id_ in (4, 5, 6) if grass.ended(id_)] == ["a b|1|4|", "$(id);x|2|5|", "{job.id}|3|6|"]
    assert grass.job(5)["parameters"] == {"file": "$(id);x", "n": "2"}
    grass.ok("enqueue", "--each", "p.csv", "--shell", "printf '%s|' {file} {n}")
    assert [grass.log(id_) for id_ in (7, 8, 9) if grass.ended(id_)] == ["a b|1|", "$(id);x|2|", "{job.id}|3|"]
    assert grass.bash("printf 'x\\ny z\\n' | grass enqueue -q --each - -- echo {line}").out == "10-11\n"

    for wrong in ("0-9%0", "5-1", "a-b", "0-1000000"):
        assert grass.refuses(2, "enqueue", "--array", wrong, "--", "true").startswith(f"grass: --array '{wrong}'")
    grass.write("bad.csv", "a,b\n1,2\n3\n")
    said = grass.refuses(2, "enqueue", "--each", "bad.csv", "--", "echo", "{a}")
    assert said == "grass: bad.csv, line 3: it has 1 values, and the header has 2 columns\n"
    said = grass.refuses(2, "enqueue", "--each", "p.csv", "--", "echo", "{lr}")
    assert said.startswith("grass: p.csv, line 1: there is no column 'lr' for {lr}; it has file, n")
    for words in (["--at-once", "2"], ["--array", "0-1", "--sync"], ["--array", "0-1", "--stdin"], ["--name", "x{y}"]):
        grass.refuses(2, "enqueue", *words, "--", "true")
    grass.refuses(2, "run", "--array", "0-1", "--", "true")
    said = grass.refuses(2, "enqueue", "--array", "4-5", "--", "no-such-{index}")
    assert said.startswith("grass: index 4: there is no program 'no-such-4'")
    # What belongs to the program of the job is left to it.
    assert grass.run("echo", "--array", "0-1", "--each", "p.csv") == "--array 0-1 --each p.csv\n"

    with grassq.Client(grass.home) as client:
        jobs_of_array = client.submit_array(["echo", "{index}"], "7-9%1", name="py", cpu=0.1)
        assert [job.wait().log() for job in jobs_of_array] == ["7\n", "8\n", "9\n"]
        listed = client.submit_array("echo {word}", {"word": ["a b", "$HOME"]}, max_fails=1)
        assert [job.wait().log() for job in listed] == ["a b\n", "$HOME\n"]
        swept = client.sweep(["echo", "{x}"], {"x": "0..3"}, exclude="x=2", at_once=2)
        assert [job.wait().log() for job in swept] == ["0\n", "1\n", "3\n"]
        for array in ("5-1", "0-9%0"):
            with pytest.raises(BadInput):
                client.submit_array("true", array)
        with pytest.raises(BadInput, match="max_fails=0"):
            client.sweep(["echo", "{x}"], {"x": "0..3"}, max_fails=0)


FILE = """
name = "fit"
command = ["sh", "-c", "test -e ok || test {x} -ne 2"]
at_once = 4
cpu = 0.5
[params]
x = "1..3"
"""


def test_sweeps_stop_and_files_run_what_is_new_changed_or_failed(grass: Grass) -> None:
    options = ["--max-fails", "2", "--cpu=2", "--sampling-mode", "grid"]
    assert grass.ok("sweep", "false {x}", "-p", "x", "0..20", "--name", "doomed-{x}", *options).endswith(
        "21 jobs 1-21\n"
    )
    jobs = grass.ended(*range(1, 22))
    stopped = [job for job in jobs if job["state"] == "cancelled"]
    # Short jobs are prefetched, so more of them may have failed when the second failure was told.
    [(name, failed)] = {tuple(str(job["error"]).split(" stopped: ")) for job in stopped}
    assert len(stopped) >= 10 and name == "sweep doomed-{x}"
    assert re.fullmatch(r"([2-9]|10) of its jobs failed", failed)
    assert [job["name"] for job in jobs[:2]] == ["doomed-0", "doomed-1"]
    [line] = [each.split() for each in grass.ok("show").splitlines() if each.startswith("doomed-{x} ")]
    assert line[1:3] == ["21/21", "stopped,"], "one line for a sweep whose jobs have names of their own"

    def counts(*words: str) -> dict[str, int]:
        told = json.loads(grass.ok("sweep", "--file", "s.toml", "--json", *words))
        return {kind: count for kind, count in told["counts"].items() if count}

    grass.write("s.toml", FILE)
    assert counts("--dry-run") == {"new": 3} and len(grass.jobs("all")) == 21
    assert counts() == {"new": 3}
    grass.ended(22, 23, 24)
    assert counts("--dry-run") == {"again": 1, "kept": 2}
    (grass.cwd / "ok").touch()
    assert grass.ok("sweep", "--file", "s.toml") == "sweep fit: 1 job 25 (1 failed again, 2 kept)\n"
    grass.ended(25)
    assert counts() == {"kept": 3}
    grass.write("s.toml", FILE.replace("1..3", "2..5"))
    assert counts() == {"new": 2, "kept": 2, "gone": 1}
    assert {job["sweep"] for job in grass.jobs("fit")} == {22}, "more points are parts of the same sweep"
    grass.ended(26, 27)
    held = FILE.replace("1..3", "2..5").replace("cpu = 0.5", "cpu = 0.25\nhold = true")
    grass.write("s.toml", held)
    assert grass.ok("sweep", "--file", "s.toml", "--dry-run").startswith("changed          x=2\n")
    assert counts() == {"changed": 4, "gone": 1}
    grass.write("s.toml", held.replace("-ne 2", "-ne 3").replace("2..5", "2..4"))
    assert counts("--prune") == {"changed": 3, "gone": 2}
    states = {job["id"]: job["state"] for job in grass.jobs("sweep:22") if job["id"] >= 28}
    assert [*states.values()] == ["cancelled"] * 4 + ["held"] * 3

    with grassq.Client(grass.home) as client:
        done = client.sweep_file(grass.cwd / "s.toml", dry_run=True)
        assert (done.counts["kept"], done.counts["gone"], done.sweep, [*done.jobs]) == (3, 2, 22, [])
        grass.write("s.toml", held.replace("-ne 2", "-ne 3").replace("2..5", "3..4"))
        done = client.sweep_file(grass.cwd / "s.toml", prune=True)
        assert len(done.ended) == 1 and {"x": "2"} in done.gone and not done.jobs
        grass.write("s.toml", held.replace("2..5", "8..9").replace('"fit"', '"more"'))
        done = client.sweep_file(grass.cwd / "s.toml")
        assert [job.name for job in done.jobs] == ["more", "more"] and done.new == [{"x": "8"}, {"x": "9"}]
        one = client.submit(["sleep", "60"], unique="only", hold=True)
        again = client.submit(["sleep", "60"], unique="only", hold=True)
        assert (again, one.existing, again.existing) == (one, False, True)

    grass.write("s.toml", FILE.replace("x = ", "y = "))
    said = grass.refuses(2, "sweep", "--file", "s.toml")
    assert said.startswith("grass: s.toml, line 7: y: there is no {y} in command, name, env or output")
    grass.write("s.toml", FILE.replace("cpu", "cpuu"))
    said = grass.refuses(2, "sweep", "--file", "s.toml")
    assert said == "grass: s.toml, line 5: cpuu: there is no such key; did you mean cpu?\n"
    grass.refuses(2, "sweep", "x {a}", "-p", "a", "5..")
    grass.refuses(2, "sweep", "x {a}", "-p", "a", "1..2", "--exclude", "b=1")
