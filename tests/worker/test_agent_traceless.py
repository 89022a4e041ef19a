"""What an agent says of attempts that left nothing on its disk counts for one connection only."""

from __future__ import annotations

from tests.worker.workbench import CHECK, DONE, ENDED, OLD_START, START, Bench

from grassq.core.messages import Hello
from grassq.core.states import Lost
from grassq.worker.agent import REPEAT_S


def test_an_end_without_a_trace_is_repeated_within_a_connection_and_not_told_to_the_next_broker() -> None:
    bench = Bench()
    (lost,) = bench.order(CHECK)
    assert isinstance(lost, Lost)
    assert bench.tick(REPEAT_S) == [lost]
    bench.agent.hello()
    (hello,) = bench.events()
    assert isinstance(hello, Hello)
    assert bench.tick(REPEAT_S) == []


def test_an_attempt_that_was_lost_without_a_trace_can_be_given_anew_by_a_broker_that_has_forgotten_it() -> None:
    bench = Bench()
    (lost,) = bench.order(OLD_START)
    assert isinstance(lost, Lost) and bench.did() == []
    bench.agent.hello()
    bench.events()
    assert bench.order(START) == [] and bench.did() == ["begin"]


def test_an_end_on_disk_is_repeated_over_connections() -> None:
    bench = Bench(ENDED)
    assert bench.order(CHECK) == [DONE]
    bench.agent.hello()
    bench.events()
    assert bench.tick(REPEAT_S) == [DONE]
