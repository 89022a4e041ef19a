from __future__ import annotations

from grassq.compat.simple_gpu_scheduler.command_reader import Command
from grassq.compat.simple_gpu_scheduler.job_table import JobTable


def a_command(text: str) -> Command:
    return Command(text.encode(), text.encode(), text.encode())


def a_table(*texts: str, first: int = 5) -> JobTable:
    table = JobTable()
    table.add(first, [a_command(text) for text in texts])
    return table


def test_every_command_is_counted_by_how_it_ended() -> None:
    table = a_table("a", "b", "c", "d", "e")
    for job in (5, 6, 7):
        assert table.start(job, 1) is not None
    table.end(5, "succeeded")
    table.end(6, "failed")
    table.end(7, "cancelled")
    table.end(8, "cancelled")
    assert (table.succeeded, table.failed, table.unstarted, len(table)) == (1, 2, 1, 1)
    assert table.summary() == "1 succeeded, 2 failed, 1 not started"
    assert table.total == 5 and table.done == 4


def test_one_that_could_not_be_started_has_failed() -> None:
    table = a_table("a")
    table.end(5, "failed")
    assert table.failed == 1


def test_what_is_told_again_is_no_news() -> None:
    table = a_table("a")
    assert table.start(5, 1) == a_command("a")
    assert table.start(5, 1) is None
    assert table.start(5, 2) == a_command("a")
    assert table.end(5, "succeeded") == a_command("a")
    assert table.end(5, "succeeded") is None and table.start(5, 3) is None
    assert table.succeeded == 1


def test_jobs_of_somebody_else_are_nothing_to_it() -> None:
    table = a_table("a")
    assert table.start(9, 1) is None and table.end(9, "failed") is None and 9 not in table
    assert table.done == 0


def test_what_had_an_id_before_another_got_it_is_lost() -> None:
    table = a_table("a", "b")
    table.start(6, 1)
    table.add(6, [a_command("c")])
    assert (table.failed, table.running, table.unfinished()) == (1, 0, [5, 6])
    assert [command.text for _, command in table.waiting()] == [b"a", b"c"]


def test_those_that_wait_are_told_in_the_order_they_were_read() -> None:
    table = a_table("a", "b", "c")
    table.start(6, 1)
    assert [job for job, _ in table.waiting()] == [5, 7]
    assert table.running == 1 and table.unfinished() == [5, 6, 7]
