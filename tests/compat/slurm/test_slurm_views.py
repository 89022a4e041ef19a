"""Jobs of Grass in Slurm's words, and tables in Slurm's formats: pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from grassq.compat.slurm import job_view
from grassq.compat.slurm.formats import named_table, read_format, read_names, table
from grassq.compat.slurm.slurm_jobs import array_place, shown_id
from grassq.compat.slurm.standing import from_words
from grassq.compat.slurm.submission.options import Reader, described
from grassq.errors import BadInput


def a_job(state: str, **more: Any) -> dict[str, Any]:
    return {"id": 12, "state": state, "queue": "main", "priority": 30, "command": ["x"], **more}


@pytest.mark.parametrize(
    ("state", "more", "letters", "reason", "codes"),
    [
        ("held", {}, "PD", "JobHeldUser", (0, 0)),
        ("waiting", {"reason": "no queue main"}, "PD", "PartitionConfig", (0, 0)),
        ("waiting", {"reason": "waits to start after job 3", "after": {"ok": ["3"]}}, "PD", "Dependency", (0, 0)),
        ("waiting", {"reason": "why", "not_before": "2026-11-18T18:00:00.000Z"}, "PD", "BeginTime", (0, 0)),
        ("queued", {}, "PD", "Resources", (0, 0)),
        ("placed", {}, "CF", "None", (0, 0)),
        ("running", {}, "R", "None", (0, 0)),
        ("running", {"cancel_requested": True}, "CG", "None", (0, 0)),
        ("succeeded", {"exit_code": 0}, "CD", "None", (0, 0)),
        ("failed", {"exit_code": 3, "outcome": "exited"}, "F", "NonZeroExitCode", (3, 0)),
        ("failed", {"signal": 9, "outcome": "signalled"}, "F", "NonZeroExitCode", (0, 9)),
        ("failed", {"signal": 15, "outcome": "timed_out"}, "TO", "TimeLimit", (0, 15)),
        ("failed", {"outcome": "lost"}, "NF", "NodeDown", (1, 0)),
        ("cancelled", {"started": "2026-11-18T05:00:00.000Z"}, "CA", "None", (0, 15)),
        ("cancelled", {}, "CA", "None", (0, 0)),
        ("failed", {"outcome": "dependency_failed"}, "CA", "DependencyNeverSatisfied", (0, 0)),
    ],
)
def test_every_state_has_slurms_letters_reason_and_codes(
    state: str, more: dict[str, Any], letters: str, reason: str, codes: tuple[int, int]
) -> None:
    job = a_job(state, **more)
    assert (job_view.letters_of(job), job_view.reason_of(job), job_view.codes(job)) == (letters, reason, codes)


def test_the_first_waiting_job_of_a_queue_lacks_resources_and_a_paused_queue_is_down() -> None:
    jobs = [a_job("queued"), a_job("queued", id=9), a_job("queued", id=20, priority=50, queue="other")]
    known = from_words(jobs, ["other"], {}, {})
    assert [job_view.reason_of(job, known) for job in jobs] == ["Priority", "Resources", "PartitionDown"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("limit sweep:9 jobs=2: 2 of its jobs have started; held by job 9, 10", "JobArrayTaskLimit"),
        ("limit project:lab gpu=1: 1 gpu needed, 0 left; held by job 13", "AssocGrpGRES"),
        ("limit project:lab cpu=8 gpu=1: 4 cpu needed, 0 left", "AssocGrpCpuLimit"),
        ("limit tag:team=a mem=1: 4 mem needed, 0 left", "AssocGrpMemLimit"),
        ("limit project:lab jobs=1: 1 of its jobs have started", "AssocGrpJobsLimit"),
        ("limit project:lab cpu=1: what is left is kept for job 15, the next of the group", "AssocGrpCpuLimit"),
        ("on vm: gpu 2 needed, 0 free; held by job 3", "Resources"),
    ],
)
def test_the_limit_of_a_group_has_slurms_nearest_word(said: str, reason: str) -> None:
    job = a_job("queued", sweep=9, array_index=3)
    known = from_words([job], [], {12: [job]}, {12: f"job 12 waits for the limit of a group:\n  {said}"})
    assert job_view.reason_of(job, known) == reason
    assert known.at_once == ({9: 2} if reason == "JobArrayTaskLimit" else {})


def test_a_dependency_is_written_as_by_squeue_while_it_is_waited_for() -> None:
    job = a_job("waiting", after={"ok": ["3-4"], "fail": ["9"]})
    assert job_view.dependency_of(job) == "afterok:3(unfulfilled),afterok:4(unfulfilled),afternotok:9(unfulfilled)"
    assert job_view.dependency_of({**job, "state": "running"}) == "(null)"
    assert job_view.dependency_of(a_job("waiting", after={"ok": ["1-999999999"]})).count("afterok") == 1000


def test_times_are_written_as_by_squeue_and_sacct() -> None:
    assert [job_view.short_span(each) for each in (0, 65, 3600, 90061, None)] == [
        "0:00", "1:05", "1:00:00", "1-01:01:01", "UNLIMITED",
    ]  # fmt: skip
    assert [job_view.long_span(each) for each in (0, 90061)] == ["00:00:00", "1-01:01:01"]


def test_a_job_that_is_to_run_again_has_not_run() -> None:
    assert job_view.elapsed_s(a_job("queued", started="2026-11-18T05:00:00.000Z"), 1e10) == 0


def test_a_task_is_known_by_its_array_and_its_index() -> None:
    assert shown_id(a_job("queued", sweep=10, array_index=7)) == "10_7"
    assert array_place(a_job("queued", sweep=10)) is None, "a job of a sweep is no task"


def test_formats_pad_cut_and_keep_text() -> None:
    fields = {"i": ("ID", lambda row: row[0]), "j": ("NAME", lambda row: row[1])}
    rows = [("1", "a"), ("22", "longer")]
    assert table(read_format("%.4i|%3j|", fields, "-o"), fields, rows) == ["  ID|NAM|", "   1|a  |", "  22|lon|"]
    assert table(read_format("%#j %i", fields, "-o"), fields, rows, header=False) == ["a      1", "longer 22"]
    for wrong in ("%X", "%99999i", "%i" * 300):
        with pytest.raises(BadInput):
            read_format(wrong, fields, "-o")
    columns = read_names("jobid,State%-4", {"jobid": ("JobID", -6), "state": ("State", 10)}, "--format")
    assert named_table(columns, [{"JobID": "1", "State": "RUNNING"}], header=True) == [
        "JobID  Sta+ ", "------ ---- ", "1      RUN+ ",
    ]  # fmt: skip
    with pytest.raises(BadInput, match="'Foo'"):
        read_names("Foo", {}, "--format")


def test_options_may_come_behind_words_and_lists_add_up() -> None:
    reader = Reader("scancel", described("jobs/j= signal/s= batch/b"))
    assert reader.read_mixed(["12", "-s", "USR1", "13", "-j1", "-j", "2", "-b"]) == (
        {"signal": "USR1", "jobs": "1,2", "batch": ""},
        ["12", "13"],
    )
    assert reader.read_mixed(["--", "-s"]) == ({}, ["-s"])
    with pytest.raises(BadInput, match="'--foo'"):
        reader.read_mixed(["12", "--foo"])
