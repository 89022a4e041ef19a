"""The fair queue: nobody waits for more than one item of each other caller, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grassq.core.fair_queue import FairQueue

#: Callers that put an item in, in order; None takes one out.
MOVES = st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=60)


@given(MOVES)
def test_a_caller_waits_for_one_item_of_each_other_caller_between_two_of_its_own(moves: list[str | None]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    waiting: list[tuple[str, int]] = []
    #: By caller that has an item here: the callers served since its last turn, or since it came.
    served: dict[str, list[str]] = {}
    for number, caller in enumerate(moves):
        if caller is not None:
            queue.put(caller, (caller, number))
            waiting.append((caller, number))
            served.setdefault(caller, [])
        elif waiting:
            item = queue.take()
            assert item == next(each for each in waiting if each[0] == item[0]), "the oldest of its caller"
            waiting.remove(item)
            served[item[0]] = []
            for other, turns in served.items():
                if other != item[0]:
                    turns.append(item[0])
                    assert len(turns) == len(set(turns)), "nobody had two turns meanwhile"
            if all(each[0] != item[0] for each in waiting):
                del served[item[0]]
        assert len(queue) == len(waiting)
    while waiting:
        waiting.remove(queue.take())
