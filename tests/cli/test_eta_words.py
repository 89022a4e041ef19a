"""`grass eta` prints intervals, never bare times."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.cli import calls
from tests.cli.fake import FakeDaemon, document


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(NOON + seconds))


def clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(NOON + seconds))


def noon() -> float:
    local = time.localtime()
    return time.mktime((local.tm_year, local.tm_mon, local.tm_mday, 12, 0, 0, 0, 0, -1))


NOON = noon()


def span(low: float, likely: float, high: float) -> dict[str, str]:
    return {"low": stamp(low), "likely": stamp(likely), "high": stamp(high)}


def a_job(id: int, state: str = "queued", **more: Any) -> dict[str, Any]:
    job = {"id": id, "name": None, "queue": "default", "state": state, "command": ["train"], "shell": False}
    return {**job, "starts": None, "ends": None, "basis": "", "n": 0, "reason": None, **more}


def eta(home: Path, answer: dict[str, Any], *words: str) -> str:
    with FakeDaemon(home, lambda request: document({"now": stamp(0), "plays": 64, "more": False, **answer})):
        done = calls.grass(home, "eta", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_job_is_told_in_sentences(home: Path) -> None:
    job = a_job(7, starts=span(600, 900, 1500), ends=span(4000, 7200, 9000), basis="12 like runs (same name)")
    assert eta(home, {"jobs": [job], "done": None, "selected": 1, "unfinished": 1}, "7").splitlines() == [
        f"job 7 is queued: starts in about 15m, {clock(900)} ({clock(600)} to {clock(1500)}), "
        f"ends in about 2h, {clock(7200)} ({clock(4000)} to {clock(9000)})",
        "  from 12 like runs (same name); 8 of 10 such intervals are meant to hold",
    ]


def test_a_job_without_an_estimate_says_why(home: Path) -> None:
    job = a_job(7, reason="no estimate yet: no job like it has ended")
    said = eta(home, {"jobs": [job], "done": None, "selected": 1, "unfinished": 1}, "7")
    assert said.splitlines() == ["job 7 is queued", "  no estimate yet: no job like it has ended"]


def test_several_jobs_are_a_table_and_the_end_of_all_of_them(home: Path) -> None:
    jobs = [
        a_job(1, "running", starts=span(-600, -600, -600), ends=span(60, 600, 900), basis="3 like runs (same name)"),
        a_job(2, reason="no estimate: queue q is paused"),
    ]
    lines = eta(home, {"jobs": jobs, "done": span(60, 600, 900), "running": 1, "queued": 1}).splitlines()
    assert lines[0].split() == ["ID", "STATE", "STARTS", "ENDS", "FROM", "COMMAND"]
    assert f"since {clock(-600)}:00" in lines[1] and f"{clock(600)} ({clock(60)} to {clock(900)})" in lines[1]
    assert "no estimate: queue q is paused" in lines[2]
    assert lines[3] == f"all jobs end in about 10m, {clock(600)} ({clock(60)} to {clock(900)})"


def test_nothing_to_do_and_ended_jobs(home: Path) -> None:
    assert eta(home, {"jobs": [], "done": None, "running": 0, "queued": 0}) == "nothing runs and nothing is queued\n"
    jobs = [a_job(i, "succeeded", reason="the job has ended (succeeded)") for i in (1, 2)]
    said = eta(home, {"jobs": jobs, "done": None, "selected": 2, "unfinished": 0}, "1-2")
    assert said.endswith("all selected jobs have ended\n")


def test_json_is_the_answer(home: Path) -> None:
    answer = {"jobs": [a_job(1)], "done": None}
    assert json.loads(eta(home, answer, "--json"))["jobs"] == [a_job(1)]


def test_a_narrow_terminal_gets_rows_that_fit(home: Path) -> None:
    jobs = [a_job(i, starts=span(600, 900, 1500), ends=span(4000, 7200, 9000), basis="x" * 99) for i in range(3)]
    jobs[0]["command"] = ["evil\x1b[2J", "x" * 200]
    answer = {"now": stamp(0), "jobs": jobs, "done": span(60, 600, 900), "running": 0, "queued": 3}
    with FakeDaemon(home, lambda request: document(answer)):
        shown = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "eta", COLUMNS="80", TERM="dumb").decode()
    assert "\x1b" not in shown and "~15m (10m to 25m)" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_why_says_when_and_what_would_help(home: Path) -> None:
    when = {"starts": span(600, 900, 1500), "ends": None, "basis": "2 running jobs", "n": 0, "reason": None}
    job = {"id": 7, "state": "queued", "text": "job 7 waits", "story": [], "when": when}
    with FakeDaemon(home, lambda request: document({"jobs": [{**job, "hints": ["with gpu 0.5 it would start now"]}]})):
        lines = calls.grass(home, "why", "7").stdout.splitlines()
    assert lines[0] == "job 7 waits" and f"{clock(900)} ({clock(600)} to {clock(1500)}); from 2 running" in lines[1]
    assert lines[2] == "  with gpu 0.5 it would start now"


def test_what_if_prints_a_job_or_a_comparison(home: Path) -> None:
    job = {**a_job(0, starts=span(0, 60, 300), basis="2 running jobs"), "id": None, "worker": "desk"}
    job["allocation"] = {"gpu": {"0": 1}}
    with FakeDaemon(home, lambda request: document({"now": stamp(0), "job": job, "warnings": []})) as daemon:
        said = calls.grass(home, "what-if", "--gpu=1", "--", "train").stdout.splitlines()
    assert said == [
        f"it would start in about 1m, {clock(60)} ({clock(0)} to {clock(300)}) on desk (gpu:0)",
        "from 2 running jobs",
    ]
    assert daemon.requests[0].document["words"] == ["--gpu=1", "--", "train"]
    outcomes = {
        "before": {"done": span(0, 600, 900), "mean_wait_s": 60.0},
        "after": {"done": None, "mean_wait_s": None},
    }
    with FakeDaemon(home, lambda request: document({"now": stamp(0), "notes": ["n"], **outcomes})) as daemon:
        done = calls.grass(home, "what-if", "--capacity", "{gpu: 8}", "sweep")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["CAPACITY", "now", "{gpu:"]
    assert "no estimate" in done.stdout and "grass: n" in done.stderr
    assert daemon.requests[0].target == "/v1/what-if?selector=sweep&capacity=%7Bgpu%3A%208%7D"


def test_options_of_a_comparison_stand_anywhere_and_those_of_a_job_stay_its_own(home: Path) -> None:
    typed = ["what-if", "--capacity", "{gpu: 8}"]
    with FakeDaemon(home, lambda request: document({"now": stamp(0), "before": {}, "after": {}})) as daemon:
        done = calls.grass(home, *typed, "sweep", "--json", "3", "--on", "desk")
        assert json.loads(done.stdout)["before"] == {}, done.stderr
        assert calls.grass(home, *typed, "sweep", "--on").returncode == 2
        calls.grass(home, *typed, "--gpu=1", "train", "--json")
        calls.grass(home, *typed, "--", "train", "--json")
    comparison, *jobs = daemon.requests
    assert comparison.target == "/v1/what-if?selector=sweep&selector=3&capacity=%7Bgpu%3A%208%7D&on=desk"
    assert [job.document["words"] for job in jobs] == [["--gpu=1", "train", "--json"], ["--", "train", "--json"]]


def test_what_if_says_in_one_line_that_nothing_runs_or_waits(home: Path) -> None:
    nothing = {"done": None, "without_estimate": 0, "mean_wait_s": None}
    answer = {"now": stamp(0), "before": nothing, "after": nothing, "notes": [], "unfinished": 0, "selected": 0}
    with FakeDaemon(home, lambda request: document(answer)):
        assert calls.grass(home, "what-if", "--capacity", "{gpu: 8}").stdout == "no job runs or waits\n"
        some = calls.grass(home, "what-if", "--capacity", "{gpu: 8}", "sweep")
        assert some.stdout == "no selected job runs or waits\n" and some.returncode == 0
        assert '"unfinished"' in calls.grass(home, "what-if", "--json", "--capacity", "{gpu: 8}").stdout


def test_what_if_without_a_job_is_one_line_and_exit_2(home: Path) -> None:
    for words in ((), ("--on", "w", "true"), ("--capacity",)):
        done = calls.grass(home, "what-if", *words)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_check_says_how_often_intervals_held(home: Path) -> None:
    none = {"count": 0, "held": 0, "early": 0, "late": 0, "by_basis": {}}
    answer: dict[str, Any] = {"share": 0.8, "starts": none, "ends": none, "waiting": 3}
    assert eta(home, answer, "--check") == "no finished predictions yet; 3 wait for their time\n"
    counts = {"count": 20, "held": 16, "early": 1, "late": 3}
    answer["ends"] = {**counts, "by_basis": {"same name": counts}}
    lines = eta(home, answer, "--check").splitlines()
    assert lines[1].split() == ["ends", "all", "20", "80", "%", "5", "%", "15", "%"]
    assert lines[2].split()[:3] == ["ends", "same", "name"] and lines[-1] == "meant to hold: 80 %"
    assert calls.grass(home, "eta", "--check", "7").returncode == 2
