"""The part of a broker that tells people that jobs are over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from grassq import home as homes
from grassq.broker.engine import Engine
from grassq.core.model import Outcome, State
from grassq.core.notices.notice import WORDS_MAX, Clue, JobEnd
from grassq.core.printable import printable
from grassq.daemon.context import DaemonContext, cancel
from grassq.notify.notifier import Notifier
from grassq.notify.senders import NoticeSender
from grassq.settings import STORE_MEMORY
from grassq.web.logs.last_lines import LastLines, LookedAtDocument
from grassq.web.logs.tail import Sources

#: How long to look for the last lines of one log: a worker may be far away.
CLUE_S = 1.5


def open_notifier(
    stack: AsyncExitStack, setup: DaemonContext, engine: Engine, run_root: str, sources: Sources
) -> Notifier:
    """Send notices until the stack is closed."""
    folder = None if setup.values.store == STORE_MEMORY else run_root
    sender = NoticeSender(homes.environment(), setup.home)
    find_clue = partial(_find_clue, LastLines(sources, CLUE_S))
    notifier = Notifier(engine, setup.values.notify, folder, sender, find_clue=find_clue)
    stack.push_async_callback(notifier.close)
    stack.push_async_callback(cancel, asyncio.create_task(notifier.run()))
    return notifier


async def _find_clue(last_lines: LastLines, end: JobEnd) -> Clue:
    """Return the last line of a failed job, and why the job probably failed."""
    document: LookedAtDocument = {
        "id": end.job,
        "state": State(end.state),
        "attempt": end.attempt,
        "worker": end.worker,
        "split": end.split,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "outcome": None if end.outcome is None else Outcome(end.outcome),
        "error": end.error,
    }
    await last_lines.describe([document])
    last_line, cause = document.get("last_line"), document.get("cause")
    return Clue(printable(last_line or "", WORDS_MAX), printable(cause or "", WORDS_MAX))
