"""The rows of `grass top` say the same as `grass show`, in the same words."""

from __future__ import annotations

from typing import Any

from tests.top.scripted import job

from grassq.cli.listing.columns import state
from grassq.cli.top.frame import ASCII, Glyphs, machine_table, plain, queue_table
from grassq.cli.top.job_pages import JobPlace, PlacedJob, PlacedJobs
from grassq.cli.top.job_rows import DEFAULT_COLUMNS, Look, Widths, cells_of, table_lines
from grassq.cli.top.job_window import JobWindow

NOW = 1_800_000_000.0
PYTHON = "/home/someone/projects/vision/.venv/bin/python"


def rows(jobs: list[dict[str, Any]], width: int, glyphs: Glyphs) -> list[str]:
    window = JobWindow()
    placed = [PlacedJob(JobPlace(0, 0.0, each["id"]), each) for each in jobs]
    window.replace(PlacedJobs(placed, is_end=True), from_start=True)
    lines = table_lines(window, Widths(DEFAULT_COLUMNS), Look(NOW, glyphs), width, len(jobs) + 1)
    return [plain(line) for line in lines[1:]]


def test_a_narrow_screen_shows_what_differs_between_commands() -> None:
    command = [PYTHON, "train.py", "--data", "/data/imagenet/train", "--model", "resnet50", "--lr"]
    jobs = [job(at, "running", command=[*command, f"0.{at}"]) for at in range(1, 4)]
    jobs += [job(at, name="grid", command=[*command, f"0.{at}"]) for at in range(4, 6)]
    jobs.append(job(6, command=[PYTHON, "evaluate.py", "--all"]))
    for glyphs in (Glyphs(), ASCII):
        *several, alone = rows(jobs, 80, glyphs)
        assert all(f"{glyphs.dots} --lr 0.{at}" in line for at, line in enumerate(several, 1)), several
        assert all(f"grid  {glyphs.dots} --lr" in line for line in several[3:]) and " python evaluate.py" in alone
        assert all(len(line) <= 80 for line in (*several, alone))
    assert "".join(rows(jobs, 80, ASCII)).isascii()
    assert all(PYTHON in line for line in rows(jobs, 300, Glyphs())), "what fits is whole"


def test_states_progress_and_directories_are_those_of_show() -> None:
    look = Look(NOW, Glyphs())
    killed = job(1, "running", cancel_requested=True, cwd="/home/me", directory="/srv/q", progress={"fraction": 0.996})
    cells = cells_of(killed, ("STATE", "CWD", "PROGRESS"), look)
    assert (cells["STATE"], cells["CWD"]) == (state(killed), "/srv/q") == ("ending", "/srv/q")
    assert cells["PROGRESS"].endswith(" 99%")


def test_queues_have_their_slots_and_machines_say_that_a_disk_is_full() -> None:
    slots = [{"name": "0", "job": 3}, {"name": "1", "job": None}]
    _, queues, names = queue_table(
        {"queues": [{"name": "q", "paused": True, "slots": slots, "running": 1, "queued": 0}]}
    )
    assert (queues, names) == ([["q (paused)", "(none yet)", "slots 0 1", "slots 1", "1", "0", ""]], ["q"])
    _, machines, _ = machine_table({"workers": [{"name": "desk", "online": True, "disk_short": True}]}, NOW)
    assert machines[0][:2] == ["desk", "online, disk full"]
