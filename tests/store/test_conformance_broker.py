"""What every store promises of a broker's own things: tokens, workers, lives and the number of commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from msgspec.structs import replace
from tests.builders import a_job, a_worker
from tests.store.batches import MANY, kept, new

from grassq.core.model import State
from grassq.errors import Deposed, GuardFailed, StoreUnavailable
from grassq.store import sql
from grassq.store.base import (
    CODE_KEPT_S,
    INCARNATIONS_KEPT,
    PREDICTIONS_KEPT,
    Changes,
    Prediction,
    Scope,
    Submission,
    Token,
    WorkerRecord,
)
from grassq.store.relational import Store

Opened = Callable[[str], Store]


def a_token(id: str = "01234567", *, created: float = 1.0, scope: Scope = "submit", name: str = "ann") -> Token:
    """A right to submit."""
    return Token(id=id, digest=b"\x00\xff" * 16, scope=scope, name=name, created=created)


def keep(store: Store, *tokens: Token) -> None:
    """Store tokens."""
    store.commit(Changes(tokens={token.id: token for token in tokens}))


# Tokens.


@pytest.mark.parametrize(
    "token",
    [
        a_token(),
        replace(a_token(), queues=(), bare=True),
        replace(a_token(), queues=("exp", "é"), expires=5.5, ended=4.25),
        replace(a_token(), is_code=True, expires=3600.0, ended=2.0, became="76543210"),
        a_token(scope="worker", name="node-2"),
        a_token(scope="admin"),
        a_token(scope="read"),
    ],
)
def test_a_token_is_kept_exactly(store: Store, token: Token) -> None:
    keep(store, token)
    assert store.tokens() == [token]


def test_a_token_of_no_known_scope_is_refused(store: Store) -> None:
    with pytest.raises(StoreUnavailable, match=r"(?i)check constraint"):
        keep(store, replace(a_token(), scope="root"))
    assert store.tokens() == []


def test_a_token_is_written_over_and_tokens_come_oldest_first(store: Store) -> None:
    old, new_one = a_token("b", created=1.0), a_token("a", created=2.0)
    keep(store, new_one, old)
    keep(store, replace(old, ended=9.0, name="bob"))
    assert store.tokens() == [replace(old, ended=9.0, name="bob"), new_one]


def test_codes_are_forgotten_seven_days_after_they_ended_and_tokens_never(store: Store) -> None:
    used = replace(a_token("used", created=1.0), is_code=True, ended=10.0, expires=5000.0)
    late = replace(a_token("late", created=2.0), is_code=True, ended=11.0, expires=20.0)
    unused = replace(a_token("unused", created=3.0), is_code=True, expires=10.0)
    revoked = replace(a_token("revoked", created=4.0), ended=10.0)
    lasting = replace(a_token("lasting", created=5.0), is_code=True)
    keep(store, used, late, unused, revoked, lasting)
    keep(store, a_token("x", created=10.0 + CODE_KEPT_S))
    assert {token.id for token in store.tokens()} == {"used", "late", "unused", "revoked", "lasting", "x"}
    keep(store, a_token("y", created=10.5 + CODE_KEPT_S))
    assert {token.id for token in store.tokens()} == {"late", "revoked", "lasting", "x", "y"}


def test_sessions_of_a_page_are_forgotten_like_codes_unless_they_were_revoked(store: Store) -> None:
    ended = replace(a_token("ended", created=1.0), page_of="owner", ended=10.0, became="ended")
    unused = replace(a_token("unused", created=2.0), page_of="t", expires=10.0)
    revoked = replace(a_token("revoked", created=3.0), page_of="owner", ended=10.0)
    used = replace(a_token("used", created=4.0), page_of="owner", expires=20.0 + CODE_KEPT_S)
    keep(store, ended, unused, revoked, used)
    assert store.tokens() == [ended, unused, revoked, used]
    keep(store, a_token("x", created=10.5 + CODE_KEPT_S))
    assert [token.id for token in store.tokens()] == ["revoked", "used", "x"]


# Workers.


def test_a_standing_is_kept_also_before_the_worker_has_spoken(store: Store) -> None:
    first = WorkerRecord(ticket="", next_ticket="n1")
    store.commit(Changes(worker_records={"w": first, "v": WorkerRecord(drained=True, ticket="t", next_ticket="t2")}))
    loaded = store.load(MANY)
    assert loaded.worker_records == {"v": WorkerRecord(True, "t", "t2"), "w": first} and loaded.workers == []
    store.commit(Changes(worker_records={"w": WorkerRecord(ticket="n1")}, workers={"w": a_worker("w")}))
    loaded = store.load(MANY)
    assert loaded.worker_records["w"] == WorkerRecord(False, "n1", "") and loaded.workers == [a_worker("w")]


def test_a_removed_worker_leaves_nothing_whatever_its_last_batch_said(store: Store) -> None:
    both = {"w": WorkerRecord(ticket="a"), "v": WorkerRecord(ticket="b")}
    store.commit(Changes(workers={name: a_worker(name) for name in both}, worker_records=both))
    store.commit(Changes(removed_workers=["w", "nobody"], workers={"w": a_worker("w", boot="boot-2")}))
    loaded = store.load(MANY)
    assert loaded.workers == [a_worker("v")] and loaded.worker_records == {"v": WorkerRecord(ticket="b")}


def test_doubts_are_replaced_as_a_whole(store: Store) -> None:
    store.commit(Changes(unreconciled={"w", "v"}))
    assert store.load(MANY).unreconciled == {"w", "v"}
    store.commit(Changes(paused={"q": "owner"}))
    assert store.load(MANY).unreconciled == {"w", "v"}
    store.commit(Changes(unreconciled={"v"}))
    assert store.load(MANY).unreconciled == {"v"}
    store.commit(Changes(unreconciled=set()))
    assert store.load(MANY).unreconciled == set()


# The number of commits, and the lives of brokers.


def test_commits_are_numbered_and_the_number_is_stored(store: Store) -> None:
    assert store.number == 0
    for number in (1, 2, 3):
        store.commit(new(a_job(number)))
        assert store.number == number
    store.load(MANY)
    assert store.number == 3


def test_a_commit_that_failed_has_no_number(store: Store) -> None:
    store.commit(new(a_job(1)))
    wrong = replace(kept(store, 1), state=State.HELD)
    with pytest.raises(GuardFailed):
        store.commit(Changes(updated={1: (wrong, wrong)}, tokens={"t": a_token()}, unreconciled={"w"}))
    assert store.number == 1
    loaded = store.load(MANY)
    assert (store.number, loaded.unreconciled, store.tokens()) == (1, set(), [])
    store.commit(new(a_job(2)))
    assert store.number == 2


def test_a_commit_on_top_of_one_we_did_not_see_is_refused(store: Store) -> None:
    store.commit(new(a_job(1)))
    store.number = 0
    with pytest.raises(GuardFailed, match="commit 0 is not the last in the store"):
        store.commit(new(a_job(2)))
    store.load(MANY)
    store.commit(new(a_job(2)))
    assert store.number == 2


def test_a_store_that_went_back_in_time_is_not_gone_on_with(store: Store) -> None:
    for job in (1, 2):
        store.commit(new(a_job(job)))
    store._execute(sql.PUT["meta"], ("number", "1"))
    with pytest.raises(Deposed, match="went back from commit 2 to 1; start the broker again"):
        store.load(MANY)


def test_lives_are_kept_with_the_last_commit_before_each(store: Store) -> None:
    store.begin("z")
    store.commit(new(a_job(1)))
    store.commit(new(a_job(2)))
    store.begin("a")
    store.begin("m")
    store.commit(new(a_job(3)))
    store.begin("a")
    assert list(store.load(MANY).incarnations.items()) == [("z", 0), ("a", 2), ("m", 2)]
    assert store.number == 3


def test_only_so_many_lives_are_kept(store: Store) -> None:
    store._many(sql.INSERT_LIFE, [(f"life{n}", n) for n in range(INCARNATIONS_KEPT)])
    store.begin("newest")
    known = store.load(MANY).incarnations
    assert (len(known), "life0" in known, "life1" in known, list(known)[-1]) == (
        INCARNATIONS_KEPT,
        False,
        True,
        "newest",
    )


@pytest.mark.parametrize("url", ["file", "postgres"], indirect=True)
def test_everything_is_there_after_reopening(url: str, opened: Opened) -> None:
    first = opened(url)
    first.begin("one")
    first.commit(
        Changes(
            tokens={"t": a_token("t")},
            worker_records={"w": WorkerRecord(True, "x", "y")},
            unreconciled={"w"},
            submissions={"k": Submission("k", b"d", 1, 1, 0.0)},
        )
    )
    before = first.load(MANY)
    first.close()
    again = opened(url)
    assert again.number == 1
    assert again.load(MANY) == before
    assert again.tokens() == [a_token("t")] and again.submission("k") is not None


def test_words_that_no_text_can_hold_do_not_stop_a_commit(store: Store) -> None:
    store.commit(new(replace(a_job(1), reason="a\0b")))
    assert kept(store, 1).reason in ("a\0b", "a\ufffdb")


def test_only_a_store_that_another_could_take_over_wants_beats(store: Store, url: str) -> None:
    assert store.beat_s == (1.0 if url.startswith("postgresql:") else None)
    store.beat()
    store.commit(new(a_job(1)))


def test_the_highest_id_of_a_replaced_store_is_kept(store: Store) -> None:
    assert store.load(MANY).restored_to == 0
    store.commit(Changes(restored_to=7))
    store.commit(Changes(restored_to=9))
    assert store.load(MANY).restored_to == 9


# Predictions.


def a_prediction(job: int, kind: Literal["start", "end"] = "end", made: float = 1.0) -> Prediction:
    """What was said of a job."""
    return Prediction(job=job, kind=kind, made=made, low=2.25, likely=3.5, high=1e10, basis="same name")


def test_of_each_kind_a_job_keeps_its_first_prediction_and_what_came_of_it(store: Store) -> None:
    store.commit(Changes(predicted=[a_prediction(1), a_prediction(1, "start"), a_prediction(2)]))
    store.commit(Changes(predicted=[a_prediction(1, made=9.0)]))
    assert store.predictions() == [a_prediction(1), a_prediction(1, "start"), a_prediction(2)]
    store.commit(Changes(judged={(1, "end"): 7.5, (2, "end"): None, (3, "end"): 1.0}))
    assert store.predictions() == [replace(a_prediction(1), actual=7.5), a_prediction(1, "start")]


def test_the_newest_predictions_are_kept(store: Store) -> None:
    store.commit(Changes(predicted=[a_prediction(job) for job in range(PREDICTIONS_KEPT)]))
    store.commit(Changes(predicted=[a_prediction(job, "start") for job in (1, 2)]))
    found = store.predictions()
    assert len(found) == PREDICTIONS_KEPT and found[0] == a_prediction(2) and found[-1] == a_prediction(2, "start")
