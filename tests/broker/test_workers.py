"""Draining and removing workers, and choosing one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests import at_once
from tests.broker.decider_fixture import DeciderFixture, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service
from grassq.core.messages import Start
from grassq.core.model import Constraints, Outcome, State
from grassq.core.resources.amounts import ONE
from grassq.core.states import Exited, Started
from grassq.errors import NotFound, Refused
from grassq.store.base import Token, WorkerRecord

A, B = a_worker("a", cpu=1), a_worker("b", cpu=1)


def two(**more: str) -> DeciderFixture:
    return DeciderFixture(A, B, **more)  # type: ignore[arg-type]


def drain(fixture: DeciderFixture, worker: str, *, undo: bool = False) -> list[str]:
    notes: list[str] = fixture.do(lambda batch: service.drain(batch, worker, undo)).notes
    return notes


def remove(fixture: DeciderFixture, worker: str, *, lost: bool = False) -> service.Done:
    done: service.Done = fixture.do(lambda batch: service.remove_worker(batch, worker, lost))
    return done


def a_token(id: str, name: str, **more: object) -> Token:
    return Token(id=id, digest=b"d" * 32, scope="worker", name=name, created=1.0, **more)  # type: ignore[arg-type]


# Draining.


def test_a_drained_worker_finishes_what_it_has_and_gets_nothing_new() -> None:
    fixture = two()
    fixture.submit(a_draft(constraints=Constraints(worker="a")))
    assert drain(fixture, "a") == ["1 job started there already, and will finish"]
    fixture.submit(a_draft(constraints=Constraints(worker="a")), a_draft())
    assert [fixture.job(i).state for i in (1, 2, 3)] == [State.PLACED, State.QUEUED, State.PLACED]
    fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    assert (fixture.job(1).state, fixture.job(2).state) == (State.SUCCEEDED, State.QUEUED)
    text = fixture.do(lambda batch: at_once.why(batch, chosen("2")), changing=False)["jobs"][0]["text"]
    assert "worker a is drained; `grass drain --undo a`" in text
    assert drain(fixture, "a", undo=True) == []
    assert fixture.job(2).state is State.PLACED


def test_drained_is_kept_over_restarts_and_hellos_and_beside_the_ticket() -> None:
    fixture = two()
    fixture.do(lambda batch: batch.changes.worker_records.__setitem__("a", WorkerRecord(ticket="t")))
    drain(fixture, "a")
    fixture.hello(replace(A, labels=("new",)))
    assert fixture.decider.board.workers["a"].drained
    fixture.restart()
    fixture.hello(A)
    fixture.hello(B)
    fixture.submit(a_draft(constraints=Constraints(worker="a")))
    assert fixture.job(1).state is State.QUEUED
    assert fixture.store.load(0).worker_records["a"] == WorkerRecord(drained=True, ticket="t")
    shown = fixture.do(lambda batch: at_once.show(batch, []), changing=False)
    assert [worker["drained"] for worker in shown["workers"]] == [True, False]


def test_draining_twice_is_draining_once_and_nobody_is_drained_by_a_wrong_name() -> None:
    fixture = two()
    drain(fixture, "a")
    before = fixture.store.commits
    drain(fixture, "a")
    assert fixture.store.commits == before
    with pytest.raises(NotFound, match="there is no worker 'c'"):
        drain(fixture, "c")


# Removing.


def test_a_worker_that_holds_nothing_is_removed_with_its_tokens() -> None:
    fixture = two()
    tokens = [a_token("1", "a"), a_token("2", "b"), replace(a_token("3", "a"), scope="read")]
    fixture.do(lambda batch: batch.changes.tokens.update({token.id: token for token in tokens}))
    generation = fixture.decider.status.generation
    assert remove(fixture, "a").jobs == []
    assert fixture.decider.status.generation > generation
    assert {token.id: token.ended is not None for token in fixture.store.tokens()} == {
        "1": True,
        "2": False,
        "3": False,
    }
    fixture.restart()
    assert [*fixture.decider.board.workers] == ["b"]
    with pytest.raises(NotFound):
        remove(fixture, "a")


def test_a_worker_that_joined_and_never_came_can_be_removed() -> None:
    fixture = two()
    fixture.do(lambda batch: batch.changes.tokens.update({"1": a_token("1", "c")}))
    remove(fixture, "c")
    assert fixture.store.tokens()[0].ended is not None


def test_a_worker_that_holds_jobs_is_removed_only_as_lost_and_only_when_it_is_silent() -> None:
    fixture = two()
    fixture.submit(a_draft(on_lost="requeue"), a_draft())
    fixture.report(1, Started(1, 4711), worker="a")
    with pytest.raises(Refused, match=r"worker a holds job 1; `grass drain a` lets them finish, `--lost`"):
        remove(fixture, "a")
    with pytest.raises(Refused, match="holds job 1 and is online"):
        remove(fixture, "a", lost=True)
    fixture.silent("a")
    fixture.silent("b")
    done = remove(fixture, "a", lost=True)
    assert ([job.state for job in done.jobs], done.notes) == ([State.QUEUED], ["given up: job 1"])
    assert remove(fixture, "b", lost=True).jobs[0].state is State.FAILED
    (first,) = fixture.store.attempts(1)
    assert (first.outcome, first.error) == (Outcome.UNKNOWN, "worker a was removed")
    assert (fixture.job(2).outcome, fixture.job(2).error) == (Outcome.LOST, "worker b was removed")
    assert (fixture.job(1).state, fixture.job(1).reason) == (
        State.WAITING,
        "no queue 'default' yet; `grass create-queue default` makes it",
    )
    assert [type(order) for order in fixture.hello(a_worker("c", cpu=1))] == [Start]


def test_the_worker_of_this_daemon_stays_while_it_serves() -> None:
    fixture = two(local="a")
    with pytest.raises(Refused, match="part of this daemon"):
        remove(fixture, "a", lost=True)
    fixture.local = None
    fixture.restart()
    remove(fixture, "a")
    assert [*fixture.decider.board.workers] == ["b"]


def test_reports_of_a_removed_worker_are_acknowledged_and_change_nothing() -> None:
    fixture = two()
    fixture.submit(a_draft())
    fixture.silent("a")
    remove(fixture, "a", lost=True)
    before = fixture.job(1)
    fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    assert fixture.job(1) == before and before.state is State.FAILED
    fixture.hello(A, fresh=False)
    assert "a" not in fixture.decider.board.workers


# Choosing.


def test_a_job_goes_to_the_worker_it_names_and_to_one_with_its_labels() -> None:
    fixture = DeciderFixture(A, replace(B, labels=("a100", "zone=eu")))
    fixture.submit(a_draft(constraints=Constraints(worker="b")))
    assert fixture.job(1).placement.worker == "b"  # type: ignore[union-attr]
    fixture.submit(a_draft(constraints=Constraints(labels=("a100",))))
    assert fixture.job(2).state is State.QUEUED, "although a is free"
    fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="b")
    assert fixture.job(2).placement.worker == "b"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("constraints", "why"),
    [
        (Constraints(worker="c"), "there is no worker 'c'; `grass show` lists them"),
        (Constraints(labels=("a100",)), "worker a has no label a100; worker b has no label a100"),
    ],
)
def test_what_nobody_could_run_is_refused_in_words(constraints: Constraints, why: str) -> None:
    with pytest.raises(Refused, match=f"this can never run: {why}"):
        two().submit(a_draft(constraints=constraints))


def test_a_worker_that_has_the_label_but_not_the_queue_is_named() -> None:
    fixture = DeciderFixture(A, replace(a_worker("b", offers=[an_offer("q")], cpu=1), labels=("a100",)))
    with pytest.raises(Refused, match="worker a has no label a100; worker b has the label but no queue 'default'"):
        fixture.submit(a_draft(constraints=Constraints(labels=("a100",))))


def test_a_named_worker_that_lacks_the_queue_is_told_apart() -> None:
    fixture = DeciderFixture(A, a_worker("b", offers=[an_offer("q")], cpu=1))
    with pytest.raises(Refused, match="worker 'a' has no queue 'q'"):
        fixture.submit(a_draft("q", constraints=Constraints(worker="a")))


def test_a_job_waits_when_the_only_worker_that_could_run_it_is_removed_and_goes_on_when_it_is_back() -> None:
    fixture = two()
    fixture.submit(a_draft(constraints=Constraints(worker="a")), a_draft(constraints=Constraints(worker="a")))
    fixture.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    fixture.silent("a")
    remove(fixture, "a", lost=True)
    fixture.submit(a_draft())
    assert fixture.job(2).state is State.FAILED, "it was placed there"
    fixture.hello(A)
    fixture.submit(
        a_draft(cpu=1, constraints=Constraints(worker="a")), a_draft(cpu=1, constraints=Constraints(worker="a"))
    )
    fixture.silent("a")
    remove(fixture, "a", lost=True)
    assert fixture.job(5).state is State.WAITING and "there is no worker 'a'" in (fixture.job(5).reason or "")
    fixture.hello(A)
    assert fixture.job(5).state is State.PLACED


# Programs outside of Grass.


def test_what_others_use_delays_a_job_without_making_it_wait_for_its_queue() -> None:
    fixture = DeciderFixture(replace(A, used_by_others={"cpu": ONE}))
    [job] = fixture.submit(a_draft(cpu=1))
    assert fixture.job(job).state is State.QUEUED
    text = fixture.do(lambda batch: at_once.why(batch, chosen(str(job))), changing=False)["jobs"][0]["text"]
    assert "on a: cpu 1 needed, 0 free; programs outside of Grass use 1 cpu" in text
    shown = fixture.do(lambda batch: at_once.show(batch, []), changing=False)["workers"][0]
    assert (shown["capacity"], shown["free"], shown["used_by_others"]) == ({"cpu": 1.0}, {"cpu": 0.0}, {"cpu": 1})
    fixture.hello(A, fresh=False)
    assert fixture.job(job).state is State.PLACED


def test_what_others_use_is_not_stored() -> None:
    fixture = DeciderFixture(A)
    commits = fixture.decider.status.history.position.commit
    fixture.hello(replace(A, used_by_others={"cpu": ONE}), fresh=False)
    assert fixture.decider.status.history.position.commit == commits
    fixture.restart()
    assert fixture.decider.board.workers["a"].info.used_by_others == {}
