"""Lanes: tries, bounds, and that one target never delays another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from grassq.core.notices import notice as notices
from grassq.core.notices.notice import Notice
from grassq.core.notices.targets import Target, read_target
from grassq.notify import outbox as outboxes
from grassq.notify.outbox import NoticeDelivery, Outbox, RetryPolicy
from grassq.notify.senders import NoticeSender, SendResult

FAST = RetryPolicy(first_s=0.001, most_s=0.002, tries=4)
GOOD, BAD = read_target("https://good.example/x"), read_target("https://bad.example/x")


class Scripted(NoticeSender):
    """Answers by target; never sends."""

    def __init__(self, answers: dict[Target, list[SendResult]], hanging: Target | None = None) -> None:
        super().__init__({}, "/")
        self.answers, self.hanging = answers, hanging
        self.sent: list[Target] = []

    async def send(self, target: Target, notice: Notice, cwd: bytes = b"") -> SendResult:
        self.sent.append(target)
        if target == self.hanging:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        planned = self.answers.get(target, [SendResult()])
        return planned.pop(0) if len(planned) > 1 else planned[0]


class Ends:
    """How deliveries ended, in order."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []
        self.changed = asyncio.Event()

    def __call__(self, delivery: NoticeDelivery, state: str) -> None:
        self.all.append((delivery.key, state))
        self.changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.all) < count:
                self.changed.clear()
                await self.changed.wait()


def a_delivery(key: str, target: Target) -> NoticeDelivery:
    return NoticeDelivery(key, target, notices.a_test(0.0))


def play(test: Callable[[], object]) -> None:
    async def run() -> None:
        result = test()
        assert asyncio.iscoroutine(result)
        await result

    asyncio.run(run())


def test_a_bug_in_a_sender_fails_its_notice_and_stalls_no_lane(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Scripted):
        async def send(self, target: Target, notice: Notice, cwd: bytes = b"") -> SendResult:
            result = await super().send(target, notice, cwd)
            if len(self.sent) <= FAST.tries:
                raise RuntimeError(f"a bug with {target.text}")
            return result

    async def test() -> None:
        ends, sender = Ends(), Broken({})
        outbox = Outbox(sender, ends, FAST)
        outbox.put(first := a_delivery("a", BAD))
        outbox.put(a_delivery("b", BAD))
        await ends.until(2)
        assert ends.all == [("a", "failed"), ("b", "sent")] and not outbox.waiting
        assert first.error == "could not be sent (RuntimeError)"

    play(test)
    assert "notice_bug" in caplog.text and BAD.text not in caplog.text, "the words of an error may hold the URL"


def test_a_notice_is_tried_again_until_it_arrives() -> None:
    async def test() -> None:
        ends, sender = Ends(), Scripted({BAD: [SendResult("answers 500"), SendResult("answers 500"), SendResult()]})
        outbox = Outbox(sender, ends, FAST)
        outbox.put(delivery := a_delivery("a", BAD))
        await ends.until(1)
        assert ends.all == [("a", "sent")] and delivery.tries == 3 and not outbox.waiting

    play(test)


def test_tries_end_by_number_by_time_and_at_once_for_good() -> None:
    async def test() -> None:
        ends = Ends()
        outbox = Outbox(Scripted({BAD: [SendResult("no")]}), ends, FAST)
        outbox.put(many := a_delivery("many", BAD))
        await ends.until(1)
        outbox = Outbox(Scripted({BAD: [SendResult("no")]}), ends, RetryPolicy(first_s=0.05, total_s=0.04))
        outbox.put(late := a_delivery("late", BAD))
        await ends.until(2)
        outbox = Outbox(Scripted({BAD: [SendResult("no", for_good=True)]}), ends, RetryPolicy())
        outbox.put(lost := a_delivery("lost", BAD))
        await ends.until(3)
        assert [state for _, state in ends.all] == ["failed"] * 3
        assert (many.tries, late.tries, lost.tries) == (4, 1, 1)

    play(test)


def test_delays_double_within_a_bound_and_the_receiver_may_ask_for_more() -> None:
    policy = RetryPolicy()
    assert [policy.delay_s(tries, None) for tries in (1, 2, 3, 9, 40)] == [1, 2, 4, 256, 300]
    assert policy.delay_s(1, 60.0) == 60 and policy.delay_s(1, 1e9) == 300


def test_a_target_that_hangs_delays_no_other_target_and_no_stop() -> None:
    async def test() -> None:
        ends = Ends()
        outbox = Outbox(Scripted({}, hanging=BAD), ends)
        outbox.put(a_delivery("stuck", BAD))
        for number in range(100):
            outbox.put(a_delivery(str(number), GOOD))
        await ends.until(100)
        assert {state for _, state in ends.all} == {"sent"}
        assert [each.key for each in outbox.waiting] == ["stuck"]
        began = time.monotonic()
        await outbox.close()
        assert time.monotonic() - began < 1

    play(test)


def test_a_full_lane_drops_its_oldest_notice_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outboxes, "LANE_MAX", 3)

    async def test() -> None:
        ends = Ends()
        outbox = Outbox(Scripted({}, hanging=BAD), ends)
        for key in "abcde":
            outbox.put(a_delivery(key, BAD))
        assert ends.all == [("b", "dropped"), ("c", "dropped")], "the first is being sent"
        assert [each.key for each in outbox.waiting] == ["a", "d", "e"] and outbox.dropped == 2
        await outbox.close()

    play(test)


def test_there_are_so_many_lanes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outboxes, "LANES_MAX", 1)

    async def test() -> None:
        ends = Ends()
        outbox = Outbox(Scripted({}, hanging=BAD), ends)
        outbox.put(a_delivery("stuck", BAD))
        outbox.put(a_delivery("other", GOOD))
        assert ends.all == [("other", "dropped")]
        await outbox.close()
        outbox = Outbox(Scripted({}), ends)
        for key, target in (("one", BAD), ("two", GOOD)):
            outbox.put(a_delivery(key, target))
            await ends.until(len(ends.all) + 1)
        assert ends.all[1:] == [("one", "sent"), ("two", "sent")], "an empty lane makes room"

    play(test)
