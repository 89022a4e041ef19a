"""What users see: the keys of the contract, true numbers, and a reason that names what is missing."""

from __future__ import annotations

from time import localtime, strftime
from typing import Any

from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_decider, a_draft, chosen
from tests.builders import a_placement, a_worker, an_offer, detecting

from grassq.broker import service, views
from grassq.core.job_options import STOP_GRACE_S
from grassq.core.model import Constraints, Outcome, State
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.limits.known_starts import STARTS_WITHIN_S
from grassq.core.resources.amounts import ONE
from grassq.core.states import Exited, Lost, Place, Release

JOB_KEYS = {
    *("id", "name", "queue", "state", "reason", "command", "shell", "request", "allocation", "worker", "attempt"),
    *("exit_code", "signal", "outcome", "error", "rerun_of", "priority", "created", "started", "finished", "cwd"),
    *("pid", "cancel_requested"),
}
QUEUE_KEYS = frozenset(("name", "worker", "paused", "limits", "free", "prefix", "cwd", "running", "queued"))


def _show(fixture: DeciderFixture, *selectors: str) -> Any:
    picked = [one for text in selectors for one in chosen(text)]
    return fixture.do(lambda batch: at_once.show(batch, picked), changing=False)


def _why(fixture: DeciderFixture, text: str) -> Any:
    return fixture.do(lambda batch: at_once.why(batch, chosen(text)), changing=False)["jobs"][0]


def test_show_has_the_keys_of_the_contract() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=1))
    shown = _show(fixture)
    assert {"schema", "jobs", "queues", "workers", "totals", "more"} <= shown.keys()
    assert shown["schema"] == 1 and shown["more"] is False
    (job,) = shown["jobs"]
    assert job.keys() >= JOB_KEYS
    assert shown["queues"][0].keys() >= QUEUE_KEYS
    assert {"name", "online", "capacity", "free", "since"} <= shown["workers"][0].keys()


def test_unknown_times_are_null_and_known_ones_are_utc() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=1, command=(b"caf\xc3\xa9", b"\xff")))
    (job,) = _show(fixture, "1")["jobs"]
    assert (job["started"], job["finished"], job["created"]) == (None, None, "2023-11-14T22:13:20.000Z")
    assert job["command"] == ["café", "\\xff"]
    assert (job["request"], job["allocation"], job["worker"]) == ({"gpu": 1}, {"gpu": {"0": 1.0}}, "w")
    fixture.started(1)
    fixture.report(1, Exited(1, Outcome.SIGNALLED, None, 11))
    (job,) = _show(fixture, "1")["jobs"]
    assert (job["state"], job["signal"], job["exit_code"], job["outcome"]) == ("failed", 11, None, "signalled")
    assert job["started"] and job["finished"]


def test_a_glance_shows_what_runs_what_is_next_and_what_ended_today() -> None:
    fixture = a_decider(cpu=1)
    fixture.submit(a_draft())
    fixture.exited(1)
    fixture.clock.now += views.RECENT_S + 1
    fixture.submit(*[a_draft() for _ in range(150)])
    fixture.exited(2)
    shown = _show(fixture)
    assert [job["id"] for job in shown["jobs"]] == [2, 3, *range(4, 104)]
    assert shown["more"] is True
    assert shown["totals"] == {"succeeded": 2, "placed": 1, "queued": 148}
    assert len(_show(fixture, "all")["jobs"]) == 151


def test_queues_and_workers_tell_what_is_free() -> None:
    fixture = DeciderFixture(a_worker("w", offers=[an_offer(), an_offer("half", gpu=[0])], gpu=2, cpu=4))
    fixture.submit(a_draft("half", gpu=0.5))
    fixture.do(lambda batch: service.pause(batch, "half"))
    shown = _show(fixture)
    half = next(queue for queue in shown["queues"] if queue["name"] == "half")
    assert (half["limits"], half["free"]) == ({"gpu": {"0": 1.0}}, {"gpu": {"0": 0.5}})
    assert (half["paused"], half["running"], half["queued"]) == (True, 1, 0)
    (worker,) = shown["workers"]
    assert worker["free"] == {"gpu": {"0": 0.5, "1": 1.0}, "cpu": 4}
    assert worker["online"] is True


def test_why_names_resource_needed_free_and_holders() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=1), a_draft(gpu=0.5), a_draft(gpu=1))
    told = _why(fixture, "3")
    blocked = {"worker": "w", "resource": "gpu", "needed": 1, "free": 0.5, "holders": [1, 2]}
    assert [{key: one[key] for key in blocked} for one in told["blocked"]] == [blocked]
    assert "waits for gpu" in told["text"] and "held by job 1, 2" in told["text"]


def test_why_tells_where_a_queued_job_is_in_line() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(gpu=1), a_draft(gpu=0.5), a_draft(gpu=1))
    turn: dict[str, Any] = {"higher": 0, "earlier": 0, "passed": 0, "passes": 64, "kept_on": None, "kept_since": None}
    turn["starts_by"] = None
    at = "2023-11-14T22:23:20.000Z"
    assert _why(fixture, "3")["turn"] == turn | {"kept_from_equals": False, "kept_from_equals_at": at}
    assert _why(fixture, "1")["turn"] is None
    fixture.clock.now += 600
    fixture.submit(a_draft(gpu=0.5))
    kept = {"kept_on": "w", "kept_since": at, "kept_from_equals": True, "kept_from_equals_at": at}
    assert _why(fixture, "3")["turn"] == turn | kept
    fixture.do(lambda batch: service.pause(batch, None))
    assert _why(fixture, "3")["turn"] is None


def test_why_tells_pauses_holds_missing_queues_and_workers_out_of_touch() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(hold=True), a_draft("nope"))
    assert "held; `grass release 1`" in _why(fixture, "1")["text"]
    assert "no queue 'nope'" in _why(fixture, "2")["text"]
    fixture.do(lambda batch: service.pause(batch, None))
    fixture.submit(a_draft())
    assert "everything is paused" in _why(fixture, "3")["text"]
    fixture.restart()
    fixture.do(lambda batch: service.resume(batch, None))
    assert "has just started; it waits 10 s at most for w" in _why(fixture, "3")["text"]
    fixture.clock.now += 10
    assert "out of touch" in _why(fixture, "3")["text"]


def test_why_tells_how_a_job_ended_and_what_to_do() -> None:
    fixture = a_decider()
    fixture.submit(a_draft(), a_draft())
    fixture.exited(1, 3)
    fixture.report(2, Lost(2 - 1, Outcome.UNKNOWN, "it is gone"))
    assert "failed, exit code 3" in _why(fixture, "1")["text"] and "grass rerun 1" in _why(fixture, "1")["text"]
    assert "failed, unknown (it is gone)" in _why(fixture, "2")["text"]


def test_a_worker_that_still_looks_for_devices_says_so() -> None:
    fixture = DeciderFixture(detecting(a_worker("w", cpu=2)))
    fixture.submit(a_draft(gpu=1))
    assert _show(fixture)["workers"][0]["detecting"] is True
    assert _show(fixture, "1")["jobs"][0]["state"] == "queued"


def test_why_says_when_the_job_that_keeps_room_starts_at_the_latest_and_which_limit_a_job_waits_for() -> None:
    fixture = DeciderFixture(a_worker(gpu=2), patience=ReservationPolicy(0, 0.0))
    fixture.submit(a_draft(gpu=1, hold=True))
    where = replace(a_placement("w", {"gpu": {"0": ONE}}), time_limit_s=3600.0)
    fixture.do(lambda batch: batch.move(batch.move(fixture.job(1), Release()), Place(where)))
    board = fixture.decider.board
    assert board.times.placed == {(1, 1): fixture.clock.mono()}
    fixture.submit(a_draft(gpu=2))
    fixture.submit(a_draft(gpu=1))
    at = strftime("%H:%M", localtime(fixture.clock.wall() + STARTS_WITHIN_S + 3600 + STOP_GRACE_S + 60))
    told = f"(gpu is free but kept for job 2, which has waited longer and starts by {at} at the latest)"
    assert told in _why(fixture, "3")["text"]
    # A job that ends in time is not kept from starting.
    fixture.submit(a_draft(gpu=1, constraints=Constraints(lasts_s=60.0, groups=("project:p",))))
    assert fixture.job(4).state is State.PLACED and board.times.backfilled == {(4, 1)}
    board.set_group_limit("project:p", GroupLimit(jobs=1))
    fixture.submit(a_draft(gpu=1, constraints=Constraints(groups=("project:p",))))
    assert _why(fixture, "5")["text"].splitlines() == [
        "job 5 (gpu 1, queue default) waits for the limit of a group:",
        "  limit project:p jobs=1: 1 of its jobs have started; held by job 4",
    ]
    # What was known of attempts stays known when the board is read again, and not when the broker begins again.
    fixture.decider.reload()
    assert fixture.decider.board.times.placed.keys() == {(1, 1), (4, 1)}
    fixture.restart()
    assert fixture.decider.board.times.placed == {}
