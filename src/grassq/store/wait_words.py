"""How the waits of a job are spelled in its row."""

from __future__ import annotations

from grassq.core.model import ForJobs, ForQueue, ForTime, Wait
from grassq.core.waiting.retries import RETRY_DELAY_S

# The spelling of each wait in the column `waits`; a time is in `ready_at`, and a delay says how long it was. Earlier
# releases knew one delay only, and wrote `time`.
_QUEUE, _JOBS, _AT, _DELAY, _OLD_DELAY = "queue", "jobs", "at", "in:", "time"


def wait_words(waits: tuple[Wait, ...]) -> str:
    """Return what a job waits for, as it is stored."""
    return " ".join([_wait_word(wait) for wait in waits])


def _wait_word(wait: Wait) -> str:
    match wait:
        case ForQueue():
            return _QUEUE
        case ForJobs():
            return _JOBS
        case ForTime(_, delay_s):
            return _AT if delay_s is None else f"{_DELAY}{delay_s!r}"


def waits_from(words: str, ready_at: float | None) -> tuple[Wait, ...]:
    """Return what a stored job waits for."""
    return tuple([_wait_from(word, ready_at or 0.0) for word in words.split()])


def _wait_from(word: str, ready_at: float) -> Wait:
    if word == _QUEUE:
        return ForQueue()
    if word == _JOBS:
        return ForJobs()
    if word == _AT:
        return ForTime(ready_at)
    return ForTime(ready_at, RETRY_DELAY_S if word == _OLD_DELAY else float(word.removeprefix(_DELAY)))
