"""The order of messages: what is brief does not wait for many long calls, and each caller has its turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grassq.broker.inbox import OWNER, WORKS_FOR, Call, FromWorker, Inbox, Message
from grassq.core.messages import Silent


def a_call(caller: str = OWNER, *, short: bool = False) -> Call:
    return Call(lambda batch: None, short=short, caller=caller)


def test_a_batch_has_one_long_call_and_the_next_one_has_none_while_brief_messages_wait() -> None:
    inbox = Inbox()
    long = [a_call("eve") for _ in range(3)]
    brief = [a_call(short=True) for _ in range(3)]
    for call in (long[0], long[1], brief[0], long[2]):
        inbox.put(call)
    assert inbox.take() == [brief[0], long[0]]
    inbox.put(brief[1])
    assert inbox.take() == [brief[1]]
    inbox.put(brief[2])
    assert inbox.take() == [brief[2], long[1]]
    assert inbox.take() == [long[2]]
    assert inbox.take() == []


def test_long_calls_of_one_caller_let_those_of_others_pass() -> None:
    inbox = Inbox()
    eve = [a_call("eve") for _ in range(100)]
    for call in eve:
        inbox.put(call)
    ann, owner = a_call("ann"), a_call()
    inbox.put(ann)
    inbox.put(owner)
    assert [inbox.take() for _ in range(4)] == [[eve[0]], [ann], [owner], [eve[1]]]


@given(st.lists(st.sampled_from(["long", "brief", "worker", "take"]), max_size=40))
def test_a_call_is_never_decided_before_a_brief_message_that_came_earlier(moves: list[str]) -> None:
    inbox, waiting = Inbox(), list[Message]()
    for move in [*moves, *["take"] * (2 * len(moves))]:
        if move != "take":
            message = FromWorker("w", Silent(0.0)) if move == "worker" else a_call(short=move == "brief")
            inbox.put(message)
            waiting.append(message)
            continue
        for message in inbox.take():
            earlier = waiting[: waiting.index(message)]
            assert all(isinstance(each, Call) and not each.short for each in earlier)
            waiting.remove(message)
    assert not waiting and not inbox


def test_a_call_is_made_for_whom_the_task_works_for() -> None:
    token = WORKS_FOR.set("eve")
    try:
        assert Call(lambda batch: None).caller == "eve"
    finally:
        WORKS_FOR.reset(token)
