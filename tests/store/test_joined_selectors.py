"""Selectors that are joined by `+` and `,` name exactly the jobs that a look at every job finds, page by page."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_job
from tests.store.batches import new

from grassq.broker import selection
from grassq.broker.batch import Batch
from grassq.core.model import FINAL, HOLDING, Job, Outcome, State
from grassq.core.planner.board import Board
from grassq.core.syntax.selectors import AllOf, ByTag, parse
from grassq.store.base import Changes
from grassq.store.relational import Store

NOW = 1_000_000.0
COUNT = 90
PARTS = [
    *("7", "3-40", "@", "@~5", "all", "failed", "state:succeeded", "queued", "state:running", "queue:q1", "name:n1"),
    *("project:p1", "p1/n1", "p2/n2/30", "tag:a", "tag:a=1", "tag:b=2", "tag:c", "since:1h", "since:1d"),
]
texts = st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("+".join), min_size=1, max_size=3).map(
    ",".join
)


def some_jobs(seed: int) -> list[Job]:
    """Jobs of few names, queues, projects and tags, so that parts overlap; some ids are missing."""
    draw = random.Random(seed)
    jobs = []
    for id_ in sorted(draw.sample(range(1, 2 * COUNT), COUNT)):
        state = draw.choice([*State])
        job = a_job(id_, draw.choice(["q1", "q2"]), state=state, attempt=int(state in FINAL | HOLDING))
        tags = {key: str(draw.randint(1, 2)) for key in "ab" if draw.random() < 0.5}
        spec = replace(job.spec, tags=tuple(sorted(tags.items())), project=draw.choice([None, "p1", "p2"]))
        job = replace(job, spec=spec, name=draw.choice([None, "n1", "n2"]), created=NOW - draw.uniform(0, 2 * 86400))
        if state in FINAL:
            code = int(state is not State.SUCCEEDED)
            job = replace(job, outcome=Outcome.EXITED, exit_code=code, finished=NOW - draw.uniform(0, 2 * 86400))
        jobs.append(job)
    return jobs


def is_meant(part: str, job: Job, ids: list[int]) -> bool:
    """Say what a part means in a second way, by a look at one job."""
    kind, _, value = part.partition(":")
    project, _, rest = part.partition("/")
    name, _, number = rest.partition("/")
    if part.replace("-", "").isdigit():
        low, _, high = part.partition("-")
        return int(low) <= job.id <= int(high or low)
    if part.startswith("@"):
        return job.id == ids[-1 - int(part[2:] or 0)]
    if rest:
        return job.project == project and job.name == name and number in ("", str(job.id))
    if kind == "tag":
        return any(value in (key, f"{key}={content}") for key, content in job.spec.tags)
    if kind == "since":
        last = job.finished if job.finished is not None else job.created
        return last >= NOW - {"1h": 3600, "1d": 86400}[value]
    asked = {"queue": job.spec.queue, "name": job.name, "project": job.project, "state": job.state.value}
    return part == "all" or job.state.value == part or asked.get(kind) == value


def test_joined_selectors_mean_and_and_or_on_every_engine(store: Store) -> None:
    jobs = some_jobs(3)
    store.commit(new(*jobs))
    ids = [job.id for job in jobs]
    batch = Batch(Board(), store, NOW, 0.0, ids[-1] + 1, Changes())

    @settings(max_examples=60, deadline=None)
    @given(texts, st.integers(1, 60))
    def check(text: str, limit: int) -> None:
        expected = [
            job.id
            for job in jobs
            if any(all(is_meant(part, job, ids) for part in each.split("+")) for each in text.split(","))
        ]
        reading = selection.begin(batch, [parse(text)], required=False)
        found: list[int] = []
        while not reading.is_over:
            some, reading = selection.read(batch, reading, limit)
            assert len(some) <= limit
            found += [job.id for job, _ in some]
        assert found == expected
        assert [job.id for job in store.jobs(selection.resolve(batch, parse(text)), limit)] == expected[:limit]

    check()


def test_the_part_with_the_fewest_jobs_is_the_one_that_is_read(store: Store) -> None:
    rare = replace(a_job(7), spec=replace(a_job(7).spec, tags=(("k", "rare"),), project="p"))
    store.commit(
        new(*(replace(a_job(id_), spec=replace(a_job(id_).spec, project="p")) for id_ in range(10, 300)), rare)
    )
    batch = Batch(Board(), store, NOW, 0.0, 300, Changes())
    meant = selection.resolve(batch, parse("all+since:365d+queued+project:p+queue:default+tag:k=rare"))
    assert isinstance(meant, AllOf)
    assert meant.parts[0] == ByTag("k", "rare")
    # One page is enough, however few jobs a page has: only the one job with the tag is looked at.
    assert store.page(AllOf(meant.parts[:2]), 0, 300, 2)[1] == 300


def test_the_rows_of_tags_follow_the_job(store: Store) -> None:
    job = replace(a_job(1, state=State.HELD), spec=replace(a_job(1).spec, tags=(("k", "old"), ("team", "a"))))
    store.commit(new(job))
    [before] = store.jobs(ByTag("k", "old"), 10)
    assert before.spec.tags == (("k", "old"), ("team", "a"))
    after = replace(before, spec=replace(before.spec, tags=(("k", "new"),)))
    store.commit(Changes(updated={1: (before, after)}))
    assert [store.jobs(each, 10) for each in (ByTag("k", "old"), ByTag("team"))] == [[], []]
    assert store.jobs(ByTag("k", "new"), 10) == store.jobs(ByTag("k"), 10) == [after]
    ended = replace(after, state=State.FAILED, finished=NOW)
    store.commit(Changes(updated={1: (after, ended)}))
    rows = store.size()
    store.commit(Changes(removed=[1]))
    assert store.jobs(ByTag("k"), 10) == []
    # The job, its tag and its environment are gone; its removal and the highest id were added.
    assert store.size() == rows - 3 + 2
