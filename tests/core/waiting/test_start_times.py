"""When the time of a waiting job has come, on clocks that are set forward and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grassq.core.model import ForTime
from grassq.core.waiting.start_times import LOOK_S, StartTimes

WALL, MONO = 1_000_000.0, 50.0


def test_a_start_time_follows_the_wall_clock_however_it_is_set() -> None:
    times = StartTimes()
    times.put(1, ForTime(WALL + 3600))
    assert times.due(WALL, MONO) == [] and times.next_in_s(WALL, MONO) == LOOK_S
    assert times.due(WALL + 3600, MONO + 1) == [1], "the clock was set forward"
    assert times.due(WALL - 3600, MONO + 2) == [], "and back again"
    assert times.next_in_s(WALL + 3590, MONO) == 10


def test_a_delay_does_not_follow_the_wall_clock() -> None:
    times = StartTimes()
    times.put(1, ForTime(WALL + 60, 60.0))
    assert times.due(WALL, MONO) == []
    assert times.due(WALL + 86_400, MONO + 59) == [] and times.next_in_s(WALL - 86_400, MONO + 59) == 1
    assert times.due(WALL - 86_400, MONO + 60) == [1]


def test_a_delay_that_is_read_again_is_never_longer_than_it_was() -> None:
    times = StartTimes()
    times.put(1, ForTime(WALL + 60, 60.0))
    assert times.next_in_s(WALL - 86_400, MONO) == 60, "the clock was set back while no broker ran"
    times.put(2, ForTime(WALL - 5, 60.0))
    assert times.due(WALL, MONO) == [2]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.none() | st.tuples(st.integers(0, 9), st.none() | st.just(1e9)), st.booleans()),
        max_size=120,
    )
)
def test_a_job_is_due_exactly_when_its_last_time_has_come(
    steps: list[tuple[int, tuple[int, float] | None, bool]],
) -> None:
    times, waits = StartTimes(), dict[int, int]()
    for now, (job, wait, look) in enumerate(steps):
        if wait is None:
            times.remove(job)
            waits.pop(job, None)
        else:
            at = now + wait[0]
            times.put(job, ForTime(float(at), wait[1]))
            times.due(float(now), float(now))
            waits[job] = at
        if look:
            assert sorted(times.due(float(now), float(now))) == sorted(job for job, at in waits.items() if at <= now)
            assert (times.next_in_s(float(now), float(now)) is None) == (not waits)
