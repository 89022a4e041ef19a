"""The options that say when a job may start: after other jobs, at a time, and again after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from grassq.broker.service import Draft
from grassq.broker.waiting.dependents import After
from grassq.core.job_options import JobOptions
from grassq.core.model import CLOCK_MAX
from grassq.core.options.moments import check_moment
from grassq.core.syntax.durations import DURATION_MAX_S
from grassq.errors import BadInput
from grassq.local_times import moment_of

PAST_TIME = "the start time is past; the job starts as soon as it can"
#: How often one of the options that name jobs may be given.
SELECTORS_MAX = 100
#: Whether a time has a distance to UTC does not depend on the day.
_ANY_DAY = datetime(2000, 1, 1)


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
    """Return the start time of a job in seconds since the epoch.

    A time without a distance to UTC is one of this machine's time zone; from another machine it is refused.
    """
    if options.at is None or isinstance(options.at, float | int):
        return options.at
    typed = options.at
    moment = moment_of(typed, "--at", datetime.fromtimestamp(now))
    if is_remote and moment.tzinfo is None:
        raise BadInput(
            f"--at {typed} is another moment on the broker's machine; write it with its distance to UTC: +01:00"
        )
    try:
        return moment.timestamp()
    except (OverflowError, OSError, ValueError):
        raise BadInput(f"--at needs a time between 1970 and 9999, not {typed}") from None


def as_meant(options: JobOptions, meant: str | None) -> JobOptions:
    """Return options with the start time as its sender means it: with the distance to UTC that holds there and then."""
    if meant is None or not isinstance(options.at, str):
        return options
    at = check_moment(meant, "at")
    if moment_of(at, "at", _ANY_DAY).tzinfo is None:
        raise BadInput(f"at {at} needs its distance to UTC, as in 2026-12-01T08:00+01:00")
    return replace(options, at=at) if moment_of(options.at, "--at", _ANY_DAY).tzinfo is None else options


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


def notes_on_times(drafts: Sequence[Draft], typed: float | str | None, now: float) -> list[str]:
    """Return a note of when a job starts that was typed with a start time, or that the time is past."""
    at = drafts[0].at if drafts else None
    if at is None:
        return []
    if at <= now:
        return [PAST_TIME]
    if not isinstance(typed, str):
        return []
    moment = datetime.fromtimestamp(at).astimezone()
    if "-" in typed:
        # In the time zone in which it was typed.
        said = datetime.fromisoformat(check_moment(typed, "--at"))
        moment = moment if said.tzinfo is None else said
    return [f"starts at {moment.isoformat(' ', 'seconds')} or later"]
