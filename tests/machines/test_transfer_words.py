"""The words about the progress of a transfer."""

from __future__ import annotations

from grassq.machines.far_job_files import MIB, TOLD_S, TransferWords


def test_a_long_transfer_tells_its_speed_and_the_time_left_and_a_short_one_tells_nothing() -> None:
    told: list[str] = []
    now = [100.0]
    words = TransferWords("sending its files", told.append, lambda: now[0])
    words(10 * MIB, 200 * MIB)
    assert told == []
    now[0] += TOLD_S
    words(50 * MIB, 200 * MIB)
    words(51 * MIB, 200 * MIB)
    assert told == ["sending its files: 50 of 200 MiB, 10.0 MiB/s, 15 s left"]


def test_a_transfer_that_does_not_move_tells_no_time() -> None:
    told: list[str] = []
    now = [0.0]
    words = TransferWords("sending its files", told.append, lambda: now[0])
    now[0] += TOLD_S
    words(0, 200 * MIB)
    assert told == ["sending its files: 0 of 200 MiB, 0.0 MiB/s"]
