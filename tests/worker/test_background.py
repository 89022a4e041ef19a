"""Work beside the event loop: every piece of it ends, whatever it raises, and the next one is done."""

from __future__ import annotations

import queue
from collections.abc import Callable

import pytest

from grassq.errors import GrassError
from grassq.worker.local_files.background import AT_ONCE, BackgroundWork

SOON_S = 60.0


class Loop:
    """An event loop that runs what threads tell it, one call at a time."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[Callable[..., object], tuple[object, ...]]] = queue.Queue()

    def call_soon(self, call: Callable[..., object], *args: object) -> None:
        self._calls.put((call, args))

    def run_one(self) -> None:
        call, args = self._calls.get(timeout=SOON_S)
        call(*args)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def background(loop: Loop) -> BackgroundWork:
    found = BackgroundWork()
    found.open(loop.call_soon)
    return found


def fail() -> None:
    raise ValueError("embedded null byte\x1b[2J")


def test_an_error_that_nobody_expects_ends_only_its_own_work(
    loop: Loop, background: BackgroundWork, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[object] = []
    for key in range(AT_ONCE + 1):
        background.ask(key, fail, ends.append)
    for _ in range(AT_ONCE + 1):
        loop.run_one()
    assert [type(end) for end in ends] == [type(ends[0])] * (AT_ONCE + 1) and isinstance(ends[0], GrassError)
    assert "ValueError: embedded null byte" in str(ends[0]) and str(ends[0]).isprintable()
    assert "Traceback" in caplog.text and 'raise ValueError("embedded' in caplog.text
    background.ask(0, lambda: "done again", ends.append)
    loop.run_one()
    assert ends[-1] == "done again"


@pytest.mark.parametrize("error", [OSError(5, "no disk"), GrassError("it cannot be done")])
def test_an_error_that_is_expected_is_handed_on_as_it_is(
    loop: Loop, background: BackgroundWork, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise error

    ends: list[object] = []
    background.ask("key", work, ends.append)
    loop.run_one()
    assert ends == [error] and not caplog.records


def test_the_same_work_is_not_done_twice_at_a_time(loop: Loop, background: BackgroundWork) -> None:
    done: list[object] = []
    for _ in range(3):
        background.ask("key", lambda: "once", done.append)
    background.ask("other", lambda: "other", done.append)
    loop.run_one()
    loop.run_one()
    assert sorted(map(str, done)) == ["once", "other"]
