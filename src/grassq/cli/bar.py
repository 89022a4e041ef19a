"""A progress bar, for commands that take a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on stderr that is gone at the end; call what it gives with done, total and a remark."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[remark]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, remark="")
        yield lambda done, total, remark: bar.update(task, completed=done, total=total, remark=remark)
