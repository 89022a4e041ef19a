"""The agent: each row of the recovery table, every order twice, and ends that are told until somebody listens."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.builders import BOOT, a_placement, a_spec, a_worker

from grassq.core.messages import Ack, Check, Hello, Report, Start, Stop
from grassq.core.model import AttemptId, Outcome
from grassq.core.reconcile import Found
from grassq.core.states import Exited, Lost, Refused, Started, Stuck
from grassq.worker.agent import ORDER_AGAIN_S, ORPHAN_LOOK_S, REPEAT_S, RUNNING_LOOK_S, Agent, exited

ME: AttemptId = (1, 1)
START = Start(1, 1, a_spec(), a_placement("w"), ())
OLD_START = Start(1, 1, a_spec(), a_placement("w", boot="boot-0"), ())
CHECK = Check(1, 1, BOOT)
STOP = Stop(1, 1, 10.0, BOOT)
ACK = Ack(1, 1)
DONE = Exited(1, Outcome.EXITED, 0)
RECORD = {"outcome": "exited", "code": 0, "signal": None, "error": None, "started": None, "ended": None}


class FakeRunner:
    """Run dirs as the test says they are; what the agent did with them is written down."""

    boot = BOOT

    def __init__(self) -> None:
        self.found = Found()
        self.did: list[Any] = []
        self.trouble: OSError | None = None

    def _do(self, *what: object) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.did.append(what if len(what) > 1 else what[0])

    def begin(self, start: Start) -> None:
        self._do("begin")

    def look(self, attempt: AttemptId) -> Found:
        if self.trouble is not None:
            raise self.trouble
        return self.found

    def watch(self, attempt: AttemptId) -> None:
        self._do("watch")

    def stop(self, attempt: AttemptId, grace_s: float) -> None:
        self._do("stop", grace_s)

    def void(self, attempt: AttemptId, boot: str) -> bool:
        self._do("void")
        if self.found.claimed:
            return False
        self.found = Found(void=True, claimed=True)
        return True

    def end_orphan(self, attempt: AttemptId, *, kill: bool) -> None:
        self._do("kill" if kill else "term")


class Bench:
    """An agent, its fake runner, its clock, and what it said."""

    def __init__(self, found: Found | None = None) -> None:
        self.runner = FakeRunner()
        self.runner.found = found or Found()
        self.now = 0.0
        self.said: list[Hello | Report] = []
        self.agent = Agent(a_worker(), self.runner, self.said.append, lambda: self.now)

    def order(self, *orders: Start | Check | Stop | Ack) -> list[Any]:
        for order in orders:
            self.agent.order(order)
        return self.events()

    def events(self) -> list[Any]:
        """What was reported since the last look."""
        events = [said.event if isinstance(said, Report) else said for said in self.said]
        self.said.clear()
        return events

    def did(self) -> list[Any]:
        done, self.runner.did[:] = list(self.runner.did), []
        return done

    def hear(self, event: str, **more: object) -> list[Any]:
        self.agent.heard({"event": event, "job": 1, "attempt": 1, "shim": 50, **more})
        return self.events()

    def tick(self, after: float) -> list[Any]:
        self.now += after
        self.agent.tick()
        return self.events()


ALIVE = Found(claimed=True, shim_alive=True, command_alive=True, pid=7)
UNSPAWNED = Found(claimed=True, shim_alive=True)
ORPHAN = Found(claimed=True, command_alive=True, pid=7)
NOBODY = Found(claimed=True, pid=7)
VOID = Found(claimed=True, void=True)
ENDED = Found(claimed=True, exit=DONE, pid=7)


# The recovery table.


@pytest.mark.parametrize(
    ("order", "found", "reports", "did"),
    [
        (START, ENDED, [DONE], []),
        (CHECK, ENDED, [DONE], []),
        (OLD_START, ENDED, [DONE], []),
        (OLD_START, Found(), [Lost], []),
        (OLD_START, ALIVE, [Lost], []),
        (Check(1, 1, "boot-0"), NOBODY, [Lost], []),
        (START, Found(), [], ["begin"]),
        (CHECK, Found(), [Lost], []),
        (START, VOID, [Refused], []),
        (START, ALIVE, [Started(1, 7)], ["watch"]),
        (CHECK, ALIVE, [Started(1, 7)], ["watch"]),
        (START, UNSPAWNED, [], ["watch"]),
        (START, ORPHAN, [Started(1, 7), Stuck], []),
        (CHECK, ORPHAN, [Started(1, 7), Stuck], []),
        (START, NOBODY, [Lost], []),
        (CHECK, NOBODY, [Lost], []),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else None,
)
def test_what_is_found_decides(order: Start | Check, found: Found, reports: list[Any], did: list[str]) -> None:
    bench = Bench(found)
    events = bench.order(order)
    assert len(events) == len(reports)
    for event, expected in zip(events, reports, strict=True):
        assert event == expected or (isinstance(expected, type) and isinstance(event, expected)), (event, expected)
    assert bench.did() == did


def test_an_attempt_of_an_earlier_boot_is_lost_by_reboot_and_others_unknown() -> None:
    assert Bench(ALIVE).order(OLD_START)[0].outcome is Outcome.LOST
    assert Bench(NOBODY).order(CHECK)[0].outcome is Outcome.UNKNOWN


# Orders may come any number of times.


def test_a_start_that_comes_twice_begins_once() -> None:
    bench = Bench()
    bench.order(START, START, START)
    assert bench.did() == ["begin"]


def test_a_start_of_a_running_attempt_is_answered_with_how_it_stands() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.hear("started", pid=9) == [Started(1, 9)]
    assert bench.order(START, CHECK) == [Started(1, 9)] * 2
    assert bench.did() == ["begin"]


def test_a_start_of_an_ended_attempt_is_answered_with_its_end() -> None:
    bench = Bench()
    bench.order(START)
    assert bench.hear("exited", record=RECORD) == [DONE]
    assert bench.order(START, CHECK, STOP) == [DONE] * 3
    assert bench.did() == ["begin"]


def test_a_start_that_comes_after_the_acknowledgement_starts_nothing() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    bench.order(ACK)
    bench.runner.found = ENDED
    assert bench.order(START) == [DONE]
    assert bench.did() == ["begin"]


def test_an_acknowledgement_of_what_has_not_ended_is_ignored() -> None:
    bench = Bench()
    bench.order(ACK, START, ACK, ACK)
    assert bench.hear("started", pid=9) == [Started(1, 9)]


def test_a_stop_that_comes_twice_is_one_stop() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=9)
    bench.did()
    assert bench.order(STOP, STOP) == [Started(1, 9)] * 2
    assert bench.did() == [("stop", 10.0)] * 2


# Ends are repeated until acknowledged.


def test_an_end_is_told_again_until_it_is_acknowledged() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    assert bench.tick(REPEAT_S / 2) == []
    assert bench.tick(REPEAT_S / 2) == [DONE]
    assert bench.tick(REPEAT_S) == [DONE]
    bench.order(ACK)
    assert bench.tick(REPEAT_S) == [] and bench.agent.idle


def test_an_end_is_heard_once() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("exited", record=RECORD)
    assert bench.hear("exited", record={**RECORD, "code": 5}) == []
    assert bench.hear("started", pid=3) == []


def test_what_nobody_ordered_is_not_reported() -> None:
    assert Bench().hear("exited", record=RECORD) == []


# Orders to shims that get lost.


def test_an_order_nobody_took_is_given_again() -> None:
    bench = Bench()
    bench.order(START)
    bench.tick(ORDER_AGAIN_S - 0.1)
    assert bench.did() == ["begin"]
    bench.tick(0.1)
    assert bench.did() == ["begin"]


def test_an_order_somebody_took_without_our_hearing_is_watched() -> None:
    bench = Bench()
    bench.order(START)
    bench.runner.found = ALIVE
    assert bench.tick(ORDER_AGAIN_S) == [Started(1, 7)]
    assert bench.did() == ["begin", "watch"]


@pytest.mark.parametrize("event", ["duplicate", "claim_failed", "bad_spec"])
def test_an_order_that_another_shim_took_is_looked_at(event: str) -> None:
    bench = Bench()
    bench.order(START)
    bench.runner.found = ALIVE
    assert bench.hear(event) == [Started(1, 7)]


def test_an_adopted_shim_that_spawns_later_is_told_when_asked_again() -> None:
    bench = Bench(UNSPAWNED)
    assert bench.order(START) == []
    bench.runner.found = ALIVE
    assert bench.order(START) == [Started(1, 7)]


# Stopping.


def test_a_stop_before_the_start_means_it_never_starts() -> None:
    bench = Bench()
    refused = bench.order(STOP)[0]
    assert isinstance(refused, Refused) and bench.did() == ["void"]
    assert bench.order(START) == [refused]
    bench.order(ACK)
    assert isinstance(bench.order(START)[0], Refused)
    assert bench.did() == []


def test_a_stop_while_ordered_is_left_for_the_shim_and_said_again_when_it_starts() -> None:
    bench = Bench()
    bench.order(START, STOP)
    assert bench.did() == ["begin", ("stop", 10.0)]
    bench.hear("started", pid=9)
    assert bench.did() == [("stop", 10.0)]
    bench.hear("exited", record={**RECORD, "outcome": "cancelled", "code": None, "signal": 15})


def test_a_stop_of_what_runs_unknown_to_us_adopts_it_first() -> None:
    bench = Bench(ALIVE)
    assert bench.order(STOP) == [Started(1, 7), Started(1, 7)]
    assert bench.did() == ["void", "watch", ("stop", 10.0)]


def test_a_stop_of_an_earlier_boot_voids_nothing() -> None:
    bench = Bench()
    events = bench.order(Stop(1, 1, 10.0, "boot-0"))
    assert {type(event) for event in events} == {Lost} and bench.did() == []


def test_an_orphan_gets_term_and_after_the_grace_kill() -> None:
    bench = Bench(ORPHAN)
    bench.order(CHECK)
    bench.order(STOP)
    assert bench.did() == ["term"]
    bench.tick(ORPHAN_LOOK_S)
    assert bench.did() == ["term"]
    bench.tick(10.0)
    assert bench.did() == ["kill"]
    bench.runner.found = NOBODY
    (lost,) = bench.tick(ORPHAN_LOOK_S)
    assert isinstance(lost, Lost) and lost.outcome is Outcome.UNKNOWN


def test_a_new_grace_counts_from_when_it_was_asked() -> None:
    bench = Bench(ORPHAN)
    bench.order(CHECK, STOP)
    bench.did()
    bench.now = 1.0
    bench.order(Stop(1, 1, 0.0, BOOT))
    assert bench.did() == ["kill"]


# Shims that go.


@pytest.mark.parametrize(
    ("found", "expected"),
    [(ENDED, [DONE]), (NOBODY, [Lost]), (ORPHAN, [Started, Stuck])],
    ids=["with a record", "with nobody", "with the command alive"],
)
@pytest.mark.parametrize("how", ["the launcher says so", "its pidfd says so"])
def test_when_a_shim_is_gone_what_it_left_decides(found: Found, expected: list[Any], how: str) -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = found
    if how == "its pidfd says so":
        bench.agent.shim_gone(ME)
        events = bench.events()
    else:
        events = bench.hear("gone")
    assert [event if event in expected else type(event) for event in events] == expected


def test_a_shim_whose_end_nobody_tells_is_found_out_by_looking() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = NOBODY
    assert bench.tick(RUNNING_LOOK_S - 0.1) == []
    (lost,) = bench.tick(0.1)
    assert isinstance(lost, Lost)


def test_being_asked_again_and_again_does_not_put_the_look_off() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = NOBODY
    for _ in range(5):
        bench.now += RUNNING_LOOK_S / 5
        bench.order(STOP)
    assert isinstance(bench.tick(0.0)[0], Lost)


def test_a_running_attempt_whose_run_dir_vanished_is_never_started_again() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.found = Found()
    (lost,) = bench.hear("gone")
    assert isinstance(lost, Lost)
    bench.tick(60)
    assert bench.did() == ["begin"]


def test_when_the_launcher_died_running_shims_are_watched_directly() -> None:
    bench = Bench()
    bench.order(START)
    bench.agent.watch_all()
    assert bench.did() == ["begin"]
    bench.hear("started", pid=7)
    bench.agent.watch_all()
    assert bench.did() == ["watch"]


def test_a_stuck_attempt_says_so_each_time_it_is_asked() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    first = bench.hear("stuck", pid=7)
    assert [type(event) for event in first] == [Started, Stuck]
    assert bench.order(CHECK) == first


# A disk or process table that cannot be read now.


def _full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def test_a_run_dir_that_cannot_be_made_is_told_and_tried_again() -> None:
    bench = Bench()

    def full(start: Start) -> None:
        raise _full()

    begin, bench.runner.begin = bench.runner.begin, full  # type: ignore[method-assign]
    (stuck,) = bench.order(START)
    assert stuck == Stuck(1, "its run dir cannot be made: No space left on device")
    bench.runner.begin = begin  # type: ignore[method-assign]
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == ["begin"]


@pytest.mark.parametrize("order", [START, CHECK, STOP])
def test_an_order_that_cannot_be_done_now_is_done_at_the_tick(order: Start | Check | Stop) -> None:
    bench = Bench(ALIVE)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.order(order) == []
    assert bench.tick(1.0) == []
    bench.runner.trouble = None
    assert bench.tick(1.0)[0] == Started(1, 7)


def test_a_look_that_fails_concludes_nothing() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    assert bench.hear("gone") == []
    assert bench.tick(RUNNING_LOOK_S) == []
    bench.runner.trouble, bench.runner.found = None, ENDED
    assert bench.tick(RUNNING_LOOK_S) == [DONE]


def test_one_attempt_that_cannot_be_looked_after_does_not_starve_the_others() -> None:
    bench = Bench()
    bench.order(START, Start(2, 1, a_spec(), a_placement("w"), ()))
    bench.did()

    def look(attempt: AttemptId) -> Found:
        if attempt == ME:
            raise OSError(errno.EACCES, "Permission denied")
        return Found()

    bench.runner.look = look  # type: ignore[method-assign]
    bench.tick(ORDER_AGAIN_S)
    assert bench.did() == ["begin"]


def test_one_shim_that_cannot_be_watched_does_not_keep_the_others_from_it() -> None:
    bench = Bench()
    bench.order(START, Start(2, 1, a_spec(), a_placement("w"), ()))
    bench.hear("started", pid=7)
    bench.hear("started", pid=8, job=2)
    bench.did()
    watched = []

    def watch(attempt: AttemptId) -> None:
        if attempt == ME:
            raise OSError(errno.EMFILE, "Too many open files")
        watched.append(attempt)

    bench.runner.watch = watch  # type: ignore[method-assign]
    bench.agent.watch_all()
    assert watched == [(2, 1)]


def test_an_order_put_off_is_kept_once_however_often_it_comes() -> None:
    bench = Bench(ALIVE)
    bench.runner.trouble = OSError(errno.EMFILE, "Too many open files")
    bench.order(*[CHECK] * 50)
    bench.runner.trouble = None
    assert bench.tick(1.0) == [Started(1, 7)]
    assert bench.tick(1.0) == []


def test_the_same_trouble_is_told_once_and_again_to_whoever_asks() -> None:
    bench = Bench()
    trouble = _full()

    def full(start: Start) -> None:
        raise trouble

    begin, bench.runner.begin = bench.runner.begin, full  # type: ignore[method-assign]
    first = bench.order(START)
    assert [bench.tick(ORDER_AGAIN_S) for _ in range(3)] == [[], [], []]
    assert bench.order(START) == first
    trouble = OSError(errno.EROFS, "Read-only file system")
    assert bench.tick(ORDER_AGAIN_S) == [Stuck(1, "its run dir cannot be made: Read-only file system")]
    bench.runner.begin = begin  # type: ignore[method-assign]
    assert bench.tick(ORDER_AGAIN_S) == []
    assert bench.order(START) == [], "the trouble is over"


def test_an_end_is_not_followed_by_old_trouble() -> None:
    bench = Bench()
    bench.order(START)
    bench.hear("started", pid=7)
    bench.hear("stuck", pid=7)
    bench.hear("exited", record=RECORD)
    assert bench.tick(REPEAT_S) == [DONE]


# The rest.


def test_a_hello_says_who_this_is_and_a_change_is_not_fresh() -> None:
    bench = Bench()
    bench.agent.hello()
    assert bench.said == [Hello(a_worker(), True)]
    bench.agent.describe(a_worker(gpu=1))
    assert bench.said[1:] == [Hello(a_worker(gpu=1), False)]


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (RECORD, Outcome.EXITED),
        ({**RECORD, "code": 3}, Outcome.EXITED),
        ({**RECORD, "code": None, "signal": 9}, Outcome.SIGNALLED),
        ({**RECORD, "outcome": "cancelled", "code": None, "signal": 15}, Outcome.CANCELLED),
        ({**RECORD, "outcome": "spawn_failed", "code": None, "error": "no such program"}, Outcome.SPAWN_FAILED),
    ],
)
def test_an_exit_record_is_read_as_it_was_written(record: dict[str, Any], outcome: Outcome) -> None:
    event = exited(4, record)
    assert (event.attempt, event.outcome) == (4, outcome)
    assert (event.code, event.signal, event.error) == (record["code"], record["signal"], record["error"])
