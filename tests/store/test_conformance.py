"""What every store promises of jobs: one suite, run on each implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import T0, a_job, a_placement, a_request, a_worker, an_offer
from tests.store.batches import DIGEST, ENV, MANY, ended, kept, new, text

from grassq.core.model import HOLDING, Constraints, ForQueue, Job, Outcome, QueueTemplate, State, rank_in
from grassq.core.planner.request_classes import shape_of
from grassq.core.syntax.file_words import SentTree
from grassq.errors import GuardFailed, StoreUnavailable
from grassq.store import rows
from grassq.store.base import SUBMISSION_KEPT_S, Attempt, Changes, Story, Submission
from grassq.store.relational import Store
from grassq.store.rows import STORY_LINES, TRIM_COMMITS

# All or nothing.


def test_a_new_store_is_empty_and_has_an_identity(store: Store) -> None:
    loaded = store.load(MANY)
    assert (loaded.jobs, loaded.workers, loaded.paused, loaded.highest_id) == ([], [], {}, 0)
    assert len(loaded.store_id) == 16 and loaded.store_id == store.load(MANY).store_id


def test_a_batch_with_a_failing_guard_leaves_nothing(store: Store) -> None:
    store.commit(new(a_job(1)))
    stale = replace(kept(store, 1), state=State.HELD)
    changes = new(a_job(2))
    changes.updated = {1: (stale, replace(stale, priority=1))}
    changes.story = [Story(1, 0.0, "x")]
    changes.submissions = {"k": Submission("k", b"d", 2, 1, 0.0)}
    changes.workers = {"w": a_worker()}
    changes.paused = {"q": "owner"}
    with pytest.raises(GuardFailed, match="job 1 is not held in the store"):
        store.commit(changes)
    loaded = store.load(MANY)
    assert [job.id for job in loaded.jobs] == [1] and loaded.jobs[0].priority == 30
    assert [line.kind for line in store.story(1)] == ["submitted"]
    assert (store.submission("k"), loaded.workers, loaded.paused) == (None, [], {})
    store.commit(new(a_job(2)))


@pytest.mark.parametrize("wrong", [{"state": State.WAITING}, {"attempt": 3}], ids=["state", "attempt"])
def test_the_guard_is_state_and_attempt(store: Store, wrong: dict[str, Any]) -> None:
    store.commit(new(a_job(1)))
    real = kept(store, 1)
    stale = replace(real, **wrong)
    with pytest.raises(GuardFailed):
        store.commit(Changes(updated={1: (stale, replace(real, priority=1))}))


def test_an_update_of_a_job_that_is_not_there_fails(store: Store) -> None:
    job = a_job(7)
    with pytest.raises(GuardFailed):
        store.commit(Changes(updated={7: (job, replace(job, priority=1))}))


def test_an_id_can_be_used_once(store: Store) -> None:
    store.commit(new(a_job(1)))
    with pytest.raises(StoreUnavailable):
        store.commit(new(a_job(1)))


def test_several_moves_of_one_job_are_one_write(store: Store) -> None:
    changes = new(a_job(1))
    job = changes.inserted[1]
    changes.put(job, replace(job, priority=5))
    assert changes.updated == {}
    store.commit(changes)
    job = kept(store, 1)
    later = Changes()
    later.put(job, replace(job, state=State.HELD))
    later.put(replace(job, state=State.HELD), replace(job, state=State.QUEUED, priority=9))
    store.commit(later)
    assert (kept(store, 1).state, kept(store, 1).priority) == (State.QUEUED, 9)


# What is committed is what is loaded.


def test_a_job_with_files_comes_back_with_them_and_other_jobs_are_stored_as_before(store: Store) -> None:
    files: dict[str, Any] = {
        "send": (SentTree("0a" * 32, b"in/\xff", b"/code"),),
        "fetch": (b"out/*", b"\xff"),
        "fetch_to": b"/back",
        "env_from": "there",
        "python": b"~/venv",
        "setup": b"uv sync",
        "setup_files": (b"uv.lock",),
        "notify": ("desktop", "https://hook.example/é"),
        "constraints": Constraints(labels=("gpu",), files=True),
    }
    changes = new(a_job(1), a_job(2))
    plain = changes.inserted[2]
    changes.inserted[1] = sent = replace(changes.inserted[1], spec=replace(plain.spec, **files))
    store.commit(changes)
    assert (kept(store, 1).spec, kept(store, 2).spec) == (sent.spec, plain.spec)
    assert "files" not in str(msgspec.msgpack.decode(rows.encode(Constraints(labels=("gpu",)))))


def test_an_edited_job_comes_back_as_it_was_edited(store: Store) -> None:
    store.commit(new(a_job(1, gpu=1), a_job(2, gpu=1)))
    job = kept(store, 1)
    spec = replace(
        job.spec,
        command=(b"\xff", b"x"),
        queue="other",
        request=a_request(gpu=0.5, mem="1G"),
        constraints=Constraints("w", ("a",)),
        python=b"/venv",
        tries=4,
    )
    after = replace(job, spec=spec, name="name", priority=7)
    store.commit(Changes(updated={1: (job, after)}, story=[Story(1, 0.0, "submitted", "queue default")]))
    assert kept(store, 1) == after and kept(store, 2).spec == job.spec
    assert text(store, "queue:other") == text(store, "name:name") == [1] and text(store, "queue:default") == [2]
    groups = {group.shape: [*group.orders] for group in store.load(0).groups}
    assert groups[shape_of(after)] == [after.order] and len(groups) == 2
    assert [(line.kind, line.detail) for line in store.story(1)] == [("submitted", "queue default")]
    store.commit(Changes(updated={1: (after, replace(after, name=None))}))
    assert kept(store, 1).name is None


def test_a_moved_job_is_loaded_at_its_place_and_counts_as_moved_until_it_ends(store: Store) -> None:
    store.commit(new(*(a_job(id_, gpu=1) for id_ in (1, 2, 3)), a_job(4, priority=50)))
    third, fourth = kept(store, 3), kept(store, 4)
    first = replace(third, rank=rank_in(a_job(1).order) - 1)
    blocked = replace(fourth, rank=5, state=State.WAITING, waits=(ForQueue(),))
    store.commit(Changes(updated={3: (third, first), 4: (fourth, blocked)}))
    assert kept(store, 3) == first and kept(store, 4) == blocked
    loaded = store.load(0)
    orders = {group.state: [*group.orders] for group in loaded.groups}
    assert orders == {
        State.QUEUED: [first.order, a_job(1).order, a_job(2).order],
        State.WAITING: [blocked.order],
    }
    assert loaded.moved == {first.rank: 3, 5: 4}
    ended(store, 3)
    assert store.load(0).moved == {5: 4}


def test_workers_and_pauses_are_kept(store: Store) -> None:
    first = a_worker("w", offers=[an_offer("exp", gpu=[0, 1], cpu=4)], gpu={"0": {"vram": "24G"}, "1": 2}, cpu=8)
    store.commit(Changes(workers={"w": first, "v": a_worker("v")}, paused={"": "owner", "exp": "ann"}))
    loaded = store.load(MANY)
    assert loaded.workers == [a_worker("v"), first] and loaded.paused == {"": "owner", "exp": "ann"}
    newer = replace(first, boot="boot-2")
    store.commit(Changes(workers={"w": newer}, paused={}))
    loaded = store.load(MANY)
    assert loaded.workers == [a_worker("v"), newer] and loaded.paused == {}


def test_queues_of_the_broker_are_kept_replaced_and_deleted(store: Store) -> None:
    first, second = QueueTemplate(an_offer("a", gpu=[0, 1]), ("big",)), QueueTemplate(an_offer("b"))
    store.commit(Changes(templates={"a": first, "b": second}))
    assert store.load(MANY).templates == {"a": first, "b": second}
    store.commit(Changes(templates={"a": replace(first, labels=()), "b": None}))
    assert store.load(MANY).templates == {"a": replace(first, labels=())}


def test_a_job_that_holds_devices_comes_back_with_its_newest_placement(store: Store) -> None:
    old, newer = a_placement("v", {"gpu": {"0": 1}}), a_placement("w", {"gpu": {"1": 1}})
    running = a_job(1, state=State.RUNNING, attempt=2, placement=newer)
    changes = new(running)
    for number, where in ((1, old), (2, newer)):
        changes.attempts[1, number] = Attempt(job=1, number=number, placement=where)
    store.commit(changes)
    assert store.load(MANY).jobs[0].placement == newer
    assert [attempt.placement for attempt in store.attempts(1)] == [old, newer]


# Ids, keys, environments.


def test_ids_are_never_given_again_after_a_clean(store: Store) -> None:
    store.commit(new(a_job(1), a_job(2)))
    ended(store, 2)
    store.commit(Changes(removed=[2]))
    assert store.load(MANY).highest_id == 2
    ended(store, 1)
    store.commit(Changes(removed=[1]))
    assert store.load(MANY).highest_id == 2
    assert text(store, "all") == []


def test_only_a_finished_job_can_be_removed(store: Store) -> None:
    store.commit(new(a_job(1)))
    with pytest.raises(GuardFailed, match="job 1 is not finished"):
        store.commit(Changes(removed=[1]))
    assert text(store, "all") == [1]


def test_what_a_job_left_goes_with_it(store: Store) -> None:
    changes = new(a_job(1))
    changes.attempts[1, 1] = Attempt(job=1, number=1, placement=a_placement())
    changes.story = [Story(1, 0.0, "placed")]
    store.commit(changes)
    ended(store, 1)
    store.commit(Changes(removed=[1]))
    assert (store.attempts(1), store.story(1), store.environment(DIGEST)) == ([], [], None)


def test_ends_to_be_told_come_in_the_order_of_their_commits_until_they_were_told(store: Store) -> None:
    store.commit(Changes(untold=[b"one", b"two\xff"]))
    store.commit(Changes(untold=[b"three"]))
    found = store.untold(0, 10)
    assert [end for _, end in found] == [b"one", b"two\xff", b"three"]
    assert store.untold(found[0][0], 1) == found[1:2]
    store.commit(Changes(told=[found[2][0], found[0][0]]))
    assert store.untold(0, 10) == found[1:2]
    store.commit(Changes(untold=[b"four"]))
    numbers = [number for number, _ in store.untold(0, 10)]
    assert numbers == sorted(numbers) and numbers[-1] > found[2][0], "a number is never given twice"


def test_the_folder_of_a_removed_job_is_remembered_until_it_is_gone(store: Store) -> None:
    store.commit(new(a_job(1), a_job(2), replace(a_job(3), rerun_of=1)))
    for id_ in (1, 2, 3):
        ended(store, id_)
    store.commit(Changes(removed=[1, 2], kept={1}))
    assert store.removals(0, 10) == {1: True, 2: False}
    assert store.removals(1, 10) == {2: False} and store.removals(0, 1) == {1: True}
    assert store.removals_without_rerun(10) == {2: False}, "job 3 may use the checkpoint of job 1"
    store.commit(Changes(cleared=[2]))
    store.commit(Changes(removed=[3]))
    assert store.removals(0, 10) == store.removals_without_rerun(10) == {1: True, 3: False}
    assert store.with_kept_logs([1, 2, 3, 4]) == {1}
    store.commit(Changes(cleared=[1, 3]))
    assert store.removals(0, 10) == {} and store.with_kept_logs([1, 3]) == {1}, "a worker elsewhere may ask"
    assert store.known([1, 2, 3]) == {1}


def test_a_key_stands_for_its_submission(store: Store) -> None:
    one = Submission("k" * 32, b"\x00\xff", 3, 2, 1.5)
    store.commit(Changes(submissions={one.key: one}))
    assert store.submission(one.key) == one
    assert store.submission("other") is None
    with pytest.raises(StoreUnavailable):
        store.commit(Changes(submissions={one.key: one}))


def test_keys_are_forgotten_after_seven_days_and_not_before(store: Store) -> None:
    keys = [Submission(f"k{at}", b"d", 1, 1, at) for at in (0.0, 1.0, SUBMISSION_KEPT_S + 0.5)]
    for one in keys:
        store.commit(Changes(submissions={one.key: one}))
    assert [store.submission(one.key) is not None for one in keys] == [False, True, True]


def test_an_environment_is_stored_once_and_dropped_with_its_last_job(store: Store) -> None:
    store.commit(new(a_job(1)))
    store.commit(new(a_job(2), environments={DIGEST: b"another body under the same digest"}))
    assert store.environment(DIGEST) == ENV
    ended(store, 1)
    ended(store, 2)
    store.commit(Changes(removed=[1]))
    assert store.environment(DIGEST) == ENV
    store.commit(Changes(removed=[2]))
    assert store.environment(DIGEST) is None


def test_a_job_without_its_environment_is_refused(store: Store) -> None:
    with pytest.raises(StoreUnavailable):
        store.commit(Changes(inserted={1: a_job(1)}))


# Reading.


def test_selectors_find_what_they_name(store: Store) -> None:
    jobs = [a_job(1), a_job(2, "exp"), replace(a_job(3), name="train"), a_job(4, state=State.HELD)]
    store.commit(new(*jobs))
    ended(store, 1)
    for selector, ids in {
        "1": [1],
        "2-9": [2, 3, 4],
        "4,1,1-2": [1, 2, 4],
        "@": [4],
        "@~3": [1],
        "@~4": [],
        "all": [1, 2, 3, 4],
        "held": [4],
        "succeeded": [1],
        "queue:exp": [2],
        "name:train": [3],
        "99": [],
    }.items():
        assert text(store, selector) == ids, selector
    assert text(store, "all", 2) == [1, 2]
    assert text(store, "4,1-3", 2) == [1, 2]


def test_recent_is_newest_first_and_bounded(store: Store) -> None:
    store.commit(new(*[a_job(i) for i in range(1, 6)]))
    for job_id, at in ((1, 10.0), (2, 30.0), (3, 20.0), (4, 30.0)):
        ended(store, job_id, at)
    assert [job.id for job in store.recent(10.0, 10)] == [4, 2, 3]
    assert [job.id for job in store.recent(0.0, 2)] == [4, 2]


def test_totals_count_every_state(store: Store) -> None:
    store.commit(new(a_job(1), a_job(2), a_job(3, state=State.HELD)))
    ended(store, 1, code=3)
    assert store.totals() == {"queued": 1, "held": 1, "failed": 1}


def test_a_story_keeps_its_last_lines_and_does_not_grow_for_ever(store: Store) -> None:
    store.commit(new(a_job(1), a_job(2)))
    before = len(store.story(2))
    for part in range(2 * TRIM_COMMITS):
        store.commit(Changes(story=[Story(1, T0, "stuck", f"{part}.{n}") for n in range(20)]))
    told = [line.detail for line in store.story(1)]
    assert STORY_LINES <= len(told) <= STORY_LINES + 20 * TRIM_COMMITS
    assert told[-1] == f"{2 * TRIM_COMMITS - 1}.19" and len(store.story(2)) == before


def test_a_story_is_told_in_the_order_it_happened(store: Store) -> None:
    store.commit(new(a_job(1)))
    lines = [Story(1, 5.0, "b", "é"), Story(1, 1.0, "a")]
    store.commit(Changes(story=[lines[0], Story(2, 0.0, "other")]))
    store.commit(Changes(story=[lines[1]]))
    assert store.story(1) == [Story(1, T0, "submitted", "queue default"), *lines]
    assert store.story(2) == [Story(2, 0.0, "other")] and store.story(3) == []


def test_reruns_are_found(store: Store) -> None:
    store.commit(new(a_job(1), replace(a_job(2), rerun_of=1), replace(a_job(3), rerun_of=1)))
    assert store.rerun_jobs() == {1}
    store.commit(new(replace(a_job(4), rerun_of=9)))
    assert [job.id for job in store.reruns([1])] == [2, 3]
    assert [job.id for job in store.reruns([9, 1, 2])] == [2, 3, 4]
    assert store.reruns([]) == store.reruns([2]) == []


def test_an_attempt_is_written_over_and_keeps_its_placement(store: Store) -> None:
    store.commit(new(a_job(1)))
    placed = Attempt(job=1, number=1, placement=a_placement("w"))
    over = replace(placed, pid=9, started=1.0, ended=2.0, outcome=Outcome.EXITED, exit_code=0)
    store.commit(Changes(attempts={(1, 1): placed}))
    store.commit(Changes(attempts={(1, 1): over}))
    assert store.attempts(1) == [over]


# The store itself refuses a lie.

Lie = Callable[[Job], Job]


@pytest.mark.parametrize(
    "lie",
    [
        lambda job: replace(job, state=State.SUCCEEDED, finished=1.0, outcome=Outcome.EXITED, exit_code=3),
        lambda job: replace(job, state=State.SUCCEEDED, finished=1.0, outcome=Outcome.UNKNOWN, exit_code=0),
        lambda job: replace(job, state=State.SUCCEEDED, finished=1.0),
        lambda job: replace(job, state=State.SUCCEEDED, finished=1.0, outcome=Outcome.EXITED),
        lambda job: replace(job, state=State.SUCCEEDED, finished=1.0, exit_code=0),
        lambda job: replace(job, state=State.FAILED),
        lambda job: replace(job, state=State.QUEUED, finished=1.0),
        lambda job: replace(job, state=State.RUNNING, attempt=0),
        lambda job: replace(job, state="resting"),
        lambda job: replace(job, attempt=-1),
    ],
    ids=[
        "success with code 3",
        "success of unknown end",
        "success without outcome",
        "success without code",
        "success without word of an exit",
        "failed and not finished",
        "queued and finished",
        "running without attempt",
        "no such state",
        "negative attempt",
    ],
)
@pytest.mark.parametrize("way", ["inserted", "updated"])
def test_a_lie_is_refused(store: Store, lie: Lie, way: str) -> None:
    store.commit(new(a_job(1)))
    job = kept(store, 1)
    changes = new(lie(replace(job, id=2))) if way == "inserted" else Changes(updated={1: (job, lie(job))})
    with pytest.raises(StoreUnavailable, match=r"(?i)check constraint"):
        store.commit(changes)
    assert store.load(MANY).jobs == [job]


def test_every_state_that_holds_devices_has_a_check() -> None:
    assert {State.PLACED, State.RUNNING} == HOLDING


def test_runs_come_by_the_end_of_their_job_in_pages_of_any_size(store: Store) -> None:
    done = {"state": State.FAILED, "outcome": Outcome.EXITED, "exit_code": 1}
    jobs = [
        replace(a_job(id_), finished=finished, **done) for id_, finished in ((1, 5.0), (2, 5.0), (3, 2.0), (4, 9.0))
    ]
    changes = new(*[replace(job, attempt=2 if job.id == 2 else 0) for job in jobs], a_job(5))
    for number in (1, 2):
        where = a_placement("w", {"gpu": {"0": number}})
        changes.attempts[2, number] = Attempt(job=2, number=number, placement=where, started=number, ended=3.0)
    store.commit(changes)
    whole = store.runs_after((0.0, 0, 0), 100)
    assert [(run.job, run.number, run.is_last) for run in whole] == [
        (3, 0, True), (1, 0, True), (2, 1, False), (2, 2, True), (4, 0, True),
    ]  # fmt: skip
    assert [run.allocation for run in whole[2:4]] == [{"gpu": {"0": 1}}, {"gpu": {"0": 2}}]
    for size in (1, 2, 3):
        found, after = [], (0.0, 0, 0)
        while page := store.runs_after(after, size):
            found += page
            after = page[-1].position
        assert found == whole
        back, before = [], (1e18, 0, 0)
        while page := store.runs_before(before, size):
            back += page
            before = page[-1].position
        assert back == whole[::-1]
    assert store.runs_after((3.0, 0, 0), 100) == whole[1:]
    assert store.runs_of([2, 5, 7]) == whole[2:4]
