"""The options that say when a job may start: after other jobs, at a time, and again after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from grassq.broker.service import Draft
from grassq.broker.waiting.dependents import After
from grassq.core.job_options import JobOptions
from grassq.core.model import CLOCK_MAX
from grassq.core.options.moments import check_moment
from grassq.core.syntax.durations import DURATION_MAX_S
from grassq.errors import BadInput

PAST_TIME = "the start time is past; the job starts as soon as it can"
#: How often one of the options that name jobs may be given.
SELECTORS_MAX = 100


def after_of(options: JobOptions) -> After:
    """Return the selectors of each condition, without conditions that were not given."""
    given = (("ok", options.after), ("any", options.after_any), ("fail", options.after_fail))
    if not any(texts for _, texts in given):
        return ()
    for _, texts in given:
        if len(texts) > SELECTORS_MAX:
            raise BadInput(
                f"a job names {SELECTORS_MAX} selectors at most in each of --after, --after-any, --after-fail"
            )
    return (("ok", options.after), ("any", options.after_any), ("fail", options.after_fail))


def start_time(options: JobOptions, now: float, *, is_remote: bool = False) -> float | None:
    """Return the start time of a job in seconds since the epoch; a time of day that is past is one of tomorrow.

    A time without a distance to UTC is one of this machine's time zone; from another machine it is refused.
    """
    if options.at is None or isinstance(options.at, float | int):
        return options.at
    typed = check_moment(options.at, "--at")
    is_daily = "-" not in typed
    today = datetime.fromtimestamp(now)  # the time zone of this machine is the meaning of a plain time
    try:
        moment = datetime.fromisoformat(f"{today:%Y-%m-%d}T{typed:0>5}" if is_daily else typed)
    except ValueError:
        raise BadInput(f"--at {typed} is not a day of the calendar") from None
    if is_remote and moment.tzinfo is None:
        raise BadInput(
            f"--at {typed} is another moment on the broker's machine; write it with its distance to UTC: +01:00"
        )
    try:
        if is_daily and moment.timestamp() <= now:
            moment += timedelta(days=1)
        return moment.timestamp()
    except (OverflowError, OSError, ValueError):
        raise BadInput(f"--at needs a time between 1970 and 9999, not {typed}") from None


def check_times(options: JobOptions) -> None:
    """Refuse start times and retries that contradict each other."""
    if options.at is not None and options.in_s is not None:
        raise BadInput("--at and --in are two start times; give one of them")
    if isinstance(options.at, float | int) and not 0 <= options.at <= CLOCK_MAX:
        raise BadInput("the start time lies between 1970 and 9999")
    if options.tries == 1:
        given = {"--retry-on": options.retry_on, "--no-retry-on": options.no_retry_on}
        for option in [name for name, value in {**given, "--retry-delay": options.retry_delay_s}.items() if value]:
            raise BadInput(f"{option} needs --retries N: the job has one try")
    low, high = options.retry_delay_s or (0.0, 0.0)
    if not 0 <= low <= high <= DURATION_MAX_S:
        raise BadInput("the delays of --retry-delay are two durations, the shorter one first, of 365d at most")


def waits_first(draft: Draft, now: float) -> bool:
    """Tell whether a job begins by waiting for other jobs or for a time."""
    return bool(draft.after or draft.in_s) or (draft.at is not None and draft.at > now)


def notes_on_times(drafts: Sequence[Draft], now: float) -> list[str]:
    """Return a note if the start time of a job is past."""
    return [PAST_TIME] if any(draft.at is not None and draft.at <= now for draft in drafts[:1]) else []
