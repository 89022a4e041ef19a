"""What became of the commands of an earlier call that was killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from grassq.cli import job_text as shape
from grassq.cli import render
from grassq.compat.simple_gpu_scheduler.messages import Messages
from grassq.compat.simple_gpu_scheduler.records import RunNote, left_behind
from grassq.errors import GrassError, NotFound
from grassq.net.client import FINAL_STATES, ApiClient

#: Commands listed one by one; of more, `grass show` tells.
LISTED_MAX = 20
#: Jobs asked about at once, and in all: of a call that had more, the last ones are told.
ASKED_AT_ONCE = 10_000
ASKED_MAX = 100_000
#: Characters of a command that are shown.
SHOWN_MAX = 200
#: What is interesting first; every other state is a way of waiting.
ORDER = ("failed", "cancelled", "running", "placed", "waiting", "succeeded")
WORDS = {"running": "running", "placed": "running", "waiting": "waiting"}

Job = dict[str, Any]


def tell_of_earlier(client: ApiClient, messages: Messages) -> None:
    """Tell of every call that ended abruptly; once all of its commands have ended, for the last time."""
    try:
        for left in left_behind(client.home):
            if left.note is None:
                messages.say(f"the note about an earlier call cannot be read; it is kept as {left.put_aside()}")
            elif _tell(client, left.note, messages):
                left.remove()
    except (GrassError, OSError) as error:
        messages.say(f"what became of an earlier call cannot be told now: {error}")


def _tell(client: ApiClient, note: RunNote, messages: Messages) -> bool:
    jobs = list(_jobs(client, note))
    is_over = all(job.get("state") in FINAL_STATES for job in jobs)
    is_stored = any(job["id"] > note.last for job in jobs)
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(note.began))
    if jobs:
        counts = Counter(WORDS.get(_state(job), _state(job)) for job in jobs)
        how = ", ".join(f"{count} {state}" for state, count in counts.items())
        messages.say(f"the call of {began} (process {note.pid}) was killed; of its commands: {how}")
        _list(jobs, note.queue, messages)
    if not is_over:
        messages.write(f"  they go on; grass kill queue:{note.queue} ends those that have not ended\n".encode())
    if note.handing and not is_stored:
        messages.say(f"the call of {began} (process {note.pid}) was killed; these it had read, and not handed over:")
        messages.write(note.handing.encode("utf-8", "surrogateescape"))
    return is_over


def _jobs(client: ApiClient, note: RunNote) -> Iterator[Job]:
    if note.first:
        start = max(note.first, note.last - ASKED_MAX + 1)
        yield from _selected(
            client,
            note.queue,
            [f"{low}-{min(low + ASKED_AT_ONCE - 1, note.last)}" for low in range(start, note.last + 1, ASKED_AT_ONCE)],
        )
    if note.handing:
        # They may have been stored, but the answer was not heard any more.
        later = f"{note.last + 1}-{note.last + ASKED_MAX}"
        yield from _selected(client, note.queue, [later if note.last else f"queue:{note.queue}"])


def _selected(client: ApiClient, queue: str, selectors: list[str]) -> Iterator[Job]:
    for selector in selectors:
        try:
            jobs = client.show([selector])["jobs"]
        except NotFound:
            continue  # cleaned away
        yield from (job for job in jobs if job.get("queue") == queue)


def _list(jobs: list[Job], queue: str, messages: Messages) -> None:
    ranked = sorted(jobs, key=lambda job: (ORDER.index(_state(job)), job["id"]))
    for job in ranked[:LISTED_MAX]:
        result = shape.result(job)
        how = f" ({result})" if result not in ("", "ok", _state(job)) else ""
        text = render.clean(shape.command(job))
        cut = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"
        messages.write(f"  job {job['id']} {job['state']}{how}: {cut}\n".encode("utf-8", "backslashreplace"))
    if len(ranked) > LISTED_MAX:
        messages.write(f"  and {len(ranked) - LISTED_MAX} more: grass show queue:{queue}\n".encode())


def _state(job: Job) -> str:
    state = str(job.get("state"))
    return state if state in ORDER else "waiting"
