"""Start times by the clock and in the time zone of this process; `core` knows neither."""

from __future__ import annotations

from datetime import datetime, timedelta

from grassq.core.options.moments import check_moment
from grassq.errors import BadInput


def moment_of(text: str, what: str, now: datetime) -> datetime:
    """Return a start time such as `18:00` or `2026-12-01T08:00+01:00`; a time of day that is past is one of tomorrow.

    `now` is the time of a clock on the wall, without a time zone; so is the answer, if no distance to UTC is typed.
    """
    typed = check_moment(text, what)
    is_daily = "-" not in typed
    try:
        moment = datetime.fromisoformat(f"{now:%Y-%m-%d}T{typed:0>5}" if is_daily else typed)
        return moment + timedelta(days=1) if is_daily and moment <= now else moment
    except ValueError:
        raise BadInput(f"{what} {typed} is not a day of the calendar") from None
    except OverflowError:
        raise BadInput(f"{what} needs a time between 1970 and 9999, not {typed}") from None


def with_distance(text: str, what: str) -> str:
    """Return a start time with the distance to UTC that holds here at that time; raise BadInput if there is none."""
    try:
        moment = moment_of(text, what, datetime.now()).astimezone()
    except (OverflowError, OSError, ValueError):
        raise BadInput(f"{what} needs a time between 1970 and 9999, not {text}") from None
    # A distance with seconds is refused: no time zone had one since the 1970s.
    return check_moment(moment.isoformat(), what)
