"""Draining and removing workers, and choosing one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.broker.desk import Desk, a_draft, chosen
from tests.builders import a_worker, an_offer

from grassq.broker import service, views
from grassq.core.messages import Start
from grassq.core.model import Outcome, State, Terms
from grassq.core.states import Exited, Started
from grassq.errors import NotFound, Refused
from grassq.store.base import Standing, Token

A, B = a_worker("a", cpu=1), a_worker("b", cpu=1)


def two(**more: str) -> Desk:
    return Desk(A, B, **more)  # type: ignore[arg-type]


def drain(desk: Desk, worker: str, *, undo: bool = False) -> list[str]:
    notes: list[str] = desk.do(lambda batch: service.drain(batch, worker, undo)).notes
    return notes


def remove(desk: Desk, worker: str, *, lost: bool = False) -> service.Done:
    done: service.Done = desk.do(lambda batch: service.remove_worker(batch, worker, lost))
    return done


def a_token(id: str, name: str, **more: object) -> Token:
    return Token(id=id, digest=b"d" * 32, scope="worker", name=name, created=1.0, **more)  # type: ignore[arg-type]


# Draining.


def test_a_drained_worker_finishes_what_it_has_and_gets_nothing_new() -> None:
    desk = two()
    desk.submit(a_draft(terms=Terms(worker="a")))
    assert drain(desk, "a") == ["1 job started there already, and will finish"]
    desk.submit(a_draft(terms=Terms(worker="a")), a_draft())
    assert [desk.job(i).state for i in (1, 2, 3)] == [State.PLACED, State.QUEUED, State.PLACED]
    desk.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    assert (desk.job(1).state, desk.job(2).state) == (State.SUCCEEDED, State.QUEUED)
    text = desk.do(lambda batch: views.why(batch, chosen("2")), changing=False)["jobs"][0]["text"]
    assert "worker a is drained; `grass drain --undo a`" in text
    assert drain(desk, "a", undo=True) == []
    assert desk.job(2).state is State.PLACED


def test_drained_is_kept_over_restarts_and_hellos_and_beside_the_ticket() -> None:
    desk = two()
    desk.do(lambda batch: batch.changes.standings.__setitem__("a", Standing(ticket="t")))
    drain(desk, "a")
    desk.hello(replace(A, labels=("new",)))
    assert desk.decider.board.stations["a"].drained
    desk.restart()
    desk.hello(A)
    desk.hello(B)
    desk.submit(a_draft(terms=Terms(worker="a")))
    assert desk.job(1).state is State.QUEUED
    assert desk.store.load(0).standings["a"] == Standing(drained=True, ticket="t")
    shown = desk.do(lambda batch: views.show(batch, []), changing=False)
    assert [worker["drained"] for worker in shown["workers"]] == [True, False]


def test_draining_twice_is_draining_once_and_nobody_is_drained_by_a_wrong_name() -> None:
    desk = two()
    drain(desk, "a")
    before = desk.store.commits
    drain(desk, "a")
    assert desk.store.commits == before
    with pytest.raises(NotFound, match="there is no worker 'c'"):
        drain(desk, "c")


# Removing.


def test_a_worker_that_holds_nothing_is_removed_with_its_tokens() -> None:
    desk = two()
    tokens = [a_token("1", "a"), a_token("2", "b"), replace(a_token("3", "a"), scope="read")]
    desk.do(lambda batch: batch.changes.tokens.update({token.id: token for token in tokens}))
    generation = desk.decider.generation
    assert remove(desk, "a").jobs == []
    assert desk.decider.generation > generation
    assert {token.id: token.ended is not None for token in desk.store.tokens()} == {"1": True, "2": False, "3": False}
    desk.restart()
    assert [*desk.decider.board.stations] == ["b"]
    with pytest.raises(NotFound):
        remove(desk, "a")


def test_a_worker_that_joined_and_never_came_can_be_removed() -> None:
    desk = two()
    desk.do(lambda batch: batch.changes.tokens.update({"1": a_token("1", "c")}))
    remove(desk, "c")
    assert desk.store.tokens()[0].ended is not None


def test_a_worker_that_holds_jobs_is_removed_only_as_lost_and_only_when_it_is_silent() -> None:
    desk = two()
    desk.submit(a_draft(on_lost="requeue"), a_draft())
    desk.report(1, Started(1, 4711), worker="a")
    with pytest.raises(Refused, match=r"worker a holds job 1; `grass drain a` lets them finish, `--lost`"):
        remove(desk, "a")
    with pytest.raises(Refused, match="holds job 1 and is in touch, so they are not lost"):
        remove(desk, "a", lost=True)
    desk.silent("a")
    desk.silent("b")
    assert [job.state for job in remove(desk, "a", lost=True).jobs] == [State.QUEUED]
    assert remove(desk, "b", lost=True).jobs[0].state is State.FAILED
    (first,) = desk.store.attempts(1)
    assert (first.outcome, first.error) == (Outcome.UNKNOWN, "worker a was removed")
    assert (desk.job(2).outcome, desk.job(2).error) == (Outcome.LOST, "worker b was removed")
    assert (desk.job(1).state, desk.job(1).reason) == (
        State.WAITING,
        "no queue 'default' yet; `grass create-queue default` makes it",
    )
    assert [type(order) for order in desk.hello(a_worker("c", cpu=1))] == [Start]


def test_the_worker_of_this_daemon_stays_while_it_serves() -> None:
    desk = two(local="a")
    with pytest.raises(Refused, match="part of this daemon"):
        remove(desk, "a", lost=True)
    desk.local = None
    desk.restart()
    remove(desk, "a")
    assert [*desk.decider.board.stations] == ["b"]


def test_reports_of_a_removed_worker_are_acknowledged_and_change_nothing() -> None:
    desk = two()
    desk.submit(a_draft())
    desk.silent("a")
    remove(desk, "a", lost=True)
    before = desk.job(1)
    desk.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    assert desk.job(1) == before and before.state is State.FAILED
    desk.hello(A, fresh=False)
    assert "a" not in desk.decider.board.stations


# Choosing.


def test_a_job_goes_to_the_worker_it_names_and_to_one_with_its_labels() -> None:
    desk = Desk(A, replace(B, labels=("a100", "zone=eu")))
    desk.submit(a_draft(terms=Terms(worker="b")))
    assert desk.job(1).placement.worker == "b"  # type: ignore[union-attr]
    desk.submit(a_draft(terms=Terms(labels=("a100",))))
    assert desk.job(2).state is State.QUEUED, "although a is free"
    desk.report(1, Exited(1, Outcome.EXITED, 0), worker="b")
    assert desk.job(2).placement.worker == "b"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (Terms(worker="c"), "there is no worker 'c'; `grass show` lists them"),
        (Terms(labels=("a100",)), "worker a has no label a100; worker b has no label a100"),
    ],
)
def test_what_nobody_could_run_is_refused_in_words(terms: Terms, why: str) -> None:
    with pytest.raises(Refused, match=f"this can never run: {why}"):
        two().submit(a_draft(terms=terms))


def test_a_named_worker_that_lacks_the_queue_is_told_apart() -> None:
    desk = Desk(A, a_worker("b", offers=[an_offer("q")], cpu=1))
    with pytest.raises(Refused, match="worker 'a' has no queue 'q'"):
        desk.submit(a_draft("q", terms=Terms(worker="a")))


def test_a_job_waits_when_the_only_worker_that_could_run_it_is_removed_and_goes_on_when_it_is_back() -> None:
    desk = two()
    desk.submit(a_draft(terms=Terms(worker="a")), a_draft(terms=Terms(worker="a")))
    desk.report(1, Exited(1, Outcome.EXITED, 0), worker="a")
    desk.silent("a")
    remove(desk, "a", lost=True)
    desk.submit(a_draft())
    assert desk.job(2).state is State.FAILED, "it was placed there"
    desk.hello(A)
    desk.submit(a_draft(cpu=1, terms=Terms(worker="a")), a_draft(cpu=1, terms=Terms(worker="a")))
    desk.silent("a")
    remove(desk, "a", lost=True)
    assert desk.job(5).state is State.WAITING and "there is no worker 'a'" in (desk.job(5).reason or "")
    desk.hello(A)
    assert desk.job(5).state is State.PLACED
