"""The screen of `grass show`: sections in the order of interest, folded, within the width, whatever jobs are called."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.calls import ROOT

from grassq.cli import job_text, render
from grassq.cli.listing import columns
from grassq.cli.listing.machines import free_text, machine_lines
from grassq.cli.listing.one_job import one_job_lines
from grassq.cli.listing.screen import OverviewScreen
from grassq.cli.listing.tree import as_tree

NOW = 1_800_000_000.0


def at(seconds: float) -> str:
    import datetime

    when = datetime.datetime.fromtimestamp(NOW + seconds, datetime.UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def a_job(id_: int, state: str, **more: Any) -> dict[str, Any]:
    fixed = {"id": id_, "state": state, "queue": "default", "command": ["python", "train.py"], "request": {"cpu": 1}}
    return {**fixed, "created": at(-200), **more}


def running(id_: int, **more: Any) -> dict[str, Any]:
    return a_job(id_, "running", started=at(-72), allocation={"gpu": {"0": 1.0}}, worker="desk", **more)


def answer(*jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    totals: dict[str, int] = {}
    for job in jobs:
        totals[job["state"]] = totals.get(job["state"], 0) + 1
    return {"jobs": list(jobs), "totals": totals, "queues": [], "workers": [], **more}


def drawn(content: dict[str, Any], width: int = 80, lines: int = 24) -> list[str]:
    return OverviewScreen(content, width, lines, coloured=False, now=NOW).lines()


def test_sections_come_in_the_order_of_interest() -> None:
    jobs = [
        running(1, progress={"fraction": 0.34, "left_s": 26}, last_line=" 34%|##  | 3/9 [00:01<00:26, 1it/s]"),
        running(2, last_line="loading data"),
        a_job(3, "queued"),
        a_job(4, "held", reason="held; `grass release 4` lets it go on"),
        a_job(
            5, "failed", exit_code=1, finished=at(-180), cause="probably out of GPU memory", last_line="RuntimeError: x"
        ),
    ]
    lines = drawn(answer(*jobs, totals={"running": 2, "queued": 1, "held": 1, "failed": 1, "succeeded": 9}))
    assert lines == [
        "RUNNING 2",
        " 1  python train.py  gpu:0  1m12s  ██▋░░░░░  34% 26s left",
        " 2  python train.py  gpu:0  1m12s  loading data",
        "",
        "NEXT 1",
        " 3  python train.py  needs cpu=1  queued 3 min ago",
        "",
        "HELD 1",
        " 4  python train.py  held  held; `grass release 4` lets it go on",
        "",
        "FAILED 1",
        " 5  python train.py  exit 1  3 min ago  probably out of GPU memory",
        "   └ RuntimeError: x",
        "",
        "9 succeeded",
    ]


def test_a_narrow_screen_puts_the_cause_below() -> None:
    cause = "probably a file not found: /data/a/long/path"
    job = a_job(5, "failed", exit_code=1, finished=at(-180), cause=cause, last_line=f"cat: {cause}")
    lines = drawn(answer(job), width=60)
    assert lines[1:3] == [" 5  python train.py  exit 1  3 min ago", f"   └ {cause}; cat: pro…"]


def test_what_is_next_is_folded_by_sweep_and_by_queue() -> None:
    jobs = [a_job(id_, "queued", name="grid", command=["python", "t.py", "--lr", f"0.{id_}"]) for id_ in range(1, 9)]
    sweeps = [{"name": "grid", "queue": "default", "jobs": 40, "ended": 10, "counts": {"succeeded": 10, "queued": 30}}]
    queues = [{"name": "default", "queued": 37}, {"name": "other", "queued": 175}]
    lines = drawn(answer(*jobs, sweeps=sweeps, queues=queues, totals={"queued": 212, "succeeded": 10}))
    assert lines[0] == "NEXT 5 of 212" and lines[1].startswith(" 1  grid  python t.py --lr 0.1")
    assert lines[6] == " 207 more: 175 in queue other, 25 of grid, 7 in queue default; `grass show queu…"
    assert lines[8:10] == ["SWEEPS 1", " grid  █████░░░░░░░░░░░░░░░   25%  10/40  30 queued, 10 succeeded"]


def test_one_job_more_than_fits_is_shown_instead_of_counted() -> None:
    lines = drawn(answer(*[a_job(id_, "queued") for id_ in range(1, 7)]))
    assert lines[0] == "NEXT 6" and len(lines) == 7


def test_a_taller_terminal_has_more_rows() -> None:
    jobs = [running(id_) for id_ in range(1, 61)]
    assert len(drawn(answer(*jobs), lines=24)) == 10 and len(drawn(answer(*jobs), lines=60)) == 22
    assert drawn(answer(*jobs))[-1] == " 52 more; `grass show running` lists them"


def test_a_screen_that_has_to_fit_gives_up_what_is_least_missed() -> None:
    jobs = [running(id_) for id_ in range(1, 5)] + [a_job(id_, "queued") for id_ in range(5, 25)]
    jobs += [a_job(id_, "failed", finished=at(-9), last_line="boom") for id_ in range(25, 35)]
    screen = OverviewScreen(answer(*jobs), 80, 24, coloured=False, now=NOW)
    for height in (30, 20, 16, 12):
        lines = screen.fitted(height)
        assert len(lines) <= height and "RUNNING 4" in lines and any("FAILURES" in line for line in lines)
    assert [line[1] for line in screen.fitted(16)[1:5]] == ["1", "2", "3", "4"], "what runs stays longest"
    assert len(screen.fitted(99)) == len(screen.lines()), "more room gives the rows back"


def test_states_that_are_not_plainly_running_are_said() -> None:
    jobs = [running(1, unreachable=True), running(2, cancel_requested=True), running(3), a_job(4, "placed")]
    lines = drawn(answer(*jobs))
    assert ["unreachable" in lines[1], "ending" in lines[2], "running" in lines[3], "placed" in lines[4]] == [
        *(True, True, False, True)
    ]


def test_a_job_that_was_killed_is_ending_wherever_it_is_told() -> None:
    for job in (running(1, cancel_requested=True, reason="r"), a_job(2, "placed", cancel_requested=True)):
        assert (columns.state(job), columns.plain_state(job)) == ("ending", "ending")
        lines = one_job_lines(job, NOW)
        assert "state     ending" in lines and not any("stopping" in line for line in lines)
    assert columns.state(a_job(3, "cancelled", cancel_requested=True)) == "cancelled"


def test_nothing_at_all() -> None:
    assert drawn(answer()) == ["no jobs"]
    assert drawn({}) == ["no jobs"]


HOSTILE = ["\x1b[2J\x1b]0;x\x07", "\u202egnp.exe", "a\nb\rc", "x" * 1_000_000, "日本語" * 99, "\ud800", "e\u0301" * 500]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [20, 80, 200])
def test_hostile_text_stays_in_its_line(text: str, width: int) -> None:
    jobs = [running(1, name=text, command=[text], last_line=text, progress={"fraction": text}, reason=text)]
    jobs += [a_job(2, "failed", cause=text, error=text, last_line=text, name=text), a_job(3, "held", reason=text)]
    jobs += [a_job(4, "queued", queue=text, reason=text)]
    sweeps = [{"name": text, "queue": text, "jobs": 3, "ended": 1, "counts": {text: 3, "queued": 4}}]
    queues = [{"name": text, "queued": 3, "prefix": [text], "limits": {text: {text: 1}}, "free": {}}]
    workers = [{"name": text, "labels": [text], "capacity": {text: 1}, "free": {}, "used_by_others": {text: text}}]
    content = answer(*jobs, sweeps=sweeps, queues=queues, workers=workers)
    content["totals"]["queued"] = 9
    for line in drawn(content, width) + machine_lines(content, width, coloured=False):
        assert render.columns(line) <= width, line
        assert not set(line) & set("\x1b\n\r\x07\u202e"), line
    for line in one_job_lines(jobs[0], NOW):
        assert not set(line) & set("\x1b\n\r\x07\u202e"), line


def test_colours_do_not_count_as_width() -> None:
    content = answer(running(1, last_line="x" * 300), a_job(2, "failed", cause="y" * 300, last_line="z" * 300))
    import re

    for line in OverviewScreen(content, 80, 24, coloured=True, now=NOW).lines():
        assert render.columns(re.sub(r"\x1b\[\d+m", "", line)) <= 80


def test_machines_in_one_line_each() -> None:
    capacity = {"gpu": {"0": 1.0, "1": 1.0}, "cpu": 8, "mem": 65536}
    assert free_text({"gpu": {"0": 0.5, "1": 0}, "cpu": 2, "mem": 1024}, capacity) == "gpu 0.5/2, cpu 2/8, mem 1/64G"
    assert free_text(None, None) == ""
    default = {"name": "default", "worker": "desk", "limits": {}, "free": {}, "running": 0, "queued": 0, "prefix": []}
    content = {
        "queues": [default],
        "workers": [{"name": "desk", "online": True, "capacity": capacity, "free": capacity}],
    }
    lines = machine_lines(content, 80, coloured=False)
    assert lines == ["", "WORKER  STATE   FREE", "desk    online  gpu 2/2, cpu 8/8, mem 64/64G"]
    paused = machine_lines({"queues": [{**default, "paused": True}]}, 80, coloured=False)
    assert paused[2].split()[:2] == ["default", "(paused)"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s ago"),
        (-59, "59 s ago"),
        (-60, "1 min ago"),
        (-7200, "2 h ago"),
        (-200_000, "2 d ago"),
        (7300, "in 2 h"),
    ],
)
def test_times_are_told_from_now(seconds: float, said: str) -> None:
    assert job_text.ago(at(seconds), NOW) == said


def test_the_directory_of_a_job_is_the_one_it_ran_in() -> None:
    def cwd(**more: Any) -> str:
        lines = one_job_lines(running(1, cwd="/home/me", **more), NOW)
        return next(line.split(None, 1)[1] for line in lines if line.startswith("cwd"))

    assert cwd() == "/home/me", "an earlier daemon does not say it"
    assert cwd(directory="/srv/queue") == "/srv/queue"
    assert cwd(directory=None) == "the default directory, on desk"
    assert cwd(directory=None, files={"send": [{"folder": "/a", "dest": ""}]}) == "the files it was sent, on desk"


def test_a_tree_has_sweeps_and_reruns() -> None:
    jobs = [
        *(a_job(1, "failed", name="grid"), a_job(2, "succeeded", name="grid"), a_job(3, "failed")),
        *(
            a_job(4, "failed", rerun_of=1, name="grid"),
            a_job(5, "succeeded", rerun_of=4),
            a_job(6, "queued", rerun_of=99),
        ),
        a_job(7, "succeeded", rerun_of=3),
    ]
    rows, firsts = as_tree(jobs)
    assert firsts == ["grid (2)", "├─ 1", "│  └─ 4", "│     └─ 5", "└─ 2", "3", "└─ 7", "6 (rerun of 99)"]
    assert rows[0]["state"] == "1 failed, 1 succeeded" and len(rows) == len(firsts)
    chain = [a_job(id_, "failed", rerun_of=id_ - 1 or None) for id_ in range(1, 3000)]
    assert len(as_tree(chain)[0]) == 2999, "a long chain is no reason to fail"


def test_the_page_about_looking_has_a_screen_as_it_is_drawn() -> None:
    def of_sweep(id_: int, lr: str, seed: int) -> dict[str, Any]:
        words = ["python", "train.py", "--data", "/data/imagenet", "--lr", lr, "--epochs", "90", "--seed", str(seed)]
        return {"name": "lrgrid", "command": words, "id": id_}

    loop = 'for i in $(seq 1000); do python step.py "$i"; done'
    gpu = [{"allocation": {"gpu": {str(id_): 1.0}}} for id_ in range(4)]
    jobs = [
        running(3) | {"command": ["bash", "-c", loop], "started": at(-2554), "progress": {"fraction": 0.85}} | gpu[2],
        running(75)
        | of_sweep(75, "0.1", 1)
        | {"started": at(-157), "progress": {"fraction": 0.17, "left_s": 744}}
        | gpu[0],
        running(77)
        | of_sweep(77, "0.1", 2)
        | {"started": at(-111), "progress": {"fraction": 0.22, "left_s": 390}}
        | gpu[3],
        running(78) | of_sweep(78, "0.01", 1) | {"started": at(-12), "last_line": "loading data/train.h5"} | gpu[1],
        *(
            a_job(80, "queued") | of_sweep(78 + seed, "0.01", seed) | {"request": {"gpu": 1}, "created": at(-1800)}
            for seed in (2, 3, 4, 5, 6)
        ),
        a_job(9, "failed", exit_code=1, finished=at(-180), cause="probably out of GPU memory")
        | {"command": ["python", "train.py", "--lr", "1"]}
        | {"last_line": "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB"},
        a_job(8, "failed", outcome="signalled", signal=9, finished=at(-2520), command=["bash", "train_all.sh"])
        | {"cause": "killed by signal 9, perhaps out of memory"},
    ]
    sweep = {"name": "lrgrid", "queue": "default", "jobs": 40, "ended": 24}
    content = answer(*jobs, sweeps=[sweep | {"counts": {"running": 3, "queued": 13, "succeeded": 24}}])
    content |= {"queues": [{"name": "default", "queued": 20}], "last_succeeded": at(-12)}
    content["totals"] |= {"queued": 20, "failed": 6, "succeeded": 66}
    page = (ROOT / "docs" / "howto" / "look-at-the-queue.md").read_text()
    assert "".join(f"    {line}".rstrip() + "\n" for line in drawn(content)) in page, "\n".join(drawn(content))
