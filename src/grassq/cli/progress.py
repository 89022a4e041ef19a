"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grassq.cli.render import clean

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


@contextmanager
def progress(label: str, *, is_shown: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar until the end of the block, or nothing; yield a function that takes done, total and a remark."""
    if not is_shown:
        yield lambda done, total, remark: None
        return
    with _bar(auto_refresh=True) as bar:
        task = bar.add_task(label, total=None, remark="")
        yield lambda done, total, remark: bar.update(task, completed=done, total=total, remark=clean(remark))


@contextmanager
def byte_progress(label: str, *, is_shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar of bytes, with speed and time left, until the end of the block; yield a function of done and total.

    When nothing is shown, there is no function.
    """
    if not is_shown:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(binary_units=True))
    with _progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), auto_refresh=True) as bar:
        task = bar.add_task(clean(label), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class ProgressBar:
    """A bar that is drawn and hidden on request, for a program that also writes to the terminal."""

    def __init__(self, label: str) -> None:
        self._bar = _bar(auto_refresh=False)
        self._task = self._bar.add_task(label, total=None, remark="")
        self._is_shown = False

    def show(self, done: int, total: int, remark: str) -> None:
        """Draw the bar."""
        self._bar.update(self._task, completed=done, total=total, remark=clean(remark))
        if not self._is_shown:
            self._bar.start()
            self._is_shown = True
        self._bar.refresh()

    def hide(self) -> None:
        """Remove the bar from the terminal."""
        if self._is_shown:
            self._bar.stop()
            self._is_shown = False


def _bar(*, auto_refresh: bool) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return _progress(*columns, TextColumn("{task.fields[remark]}", markup=False), auto_refresh=auto_refresh)


def _progress(*columns: ProgressColumn, auto_refresh: bool) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=auto_refresh)
