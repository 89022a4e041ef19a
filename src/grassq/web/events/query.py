"""The query of a subscriber to a queue: the first job, and what the subscriber knows already."""

from __future__ import annotations

from operator import gt
from typing import NamedTuple

from aiohttp import web

from grassq.core.model import ATTEMPT_MAX, ID_MAX
from grassq.core.names import check_name
from grassq.core.syntax.numbers import is_number
from grassq.errors import BadInput
from grassq.web.events.queue_pages import Range
from grassq.web.logs.tail import OFFSET_MAX
from grassq.web.requests import number

#: Offsets in one request.
OFFSETS_MAX = 1000
#: Ranges of ended jobs in one request.
OVER_MAX = 1000

#: The largest job, attempt and offset; and the largest first and last job.
_PLACE = (ID_MAX, ATTEMPT_MAX, OFFSET_MAX)
_RANGE = (ID_MAX, ID_MAX)

Offsets = dict[int, tuple[int, int]]


class SubscriptionQuery(NamedTuple):
    """Start job id, per-job log offsets, and id ranges of jobs that the client knows have ended."""

    queue: str
    first: int
    offsets: Offsets
    over: list[Range]


def read_query(request: web.Request) -> SubscriptionQuery:
    """Return the queue and the query of a request."""
    offsets = _read("offsets", request.query.get("offsets", ""), ":", _PLACE, OFFSETS_MAX)
    over = _read("over", request.query.get("over", ""), "-", _RANGE, OVER_MAX)
    return SubscriptionQuery(
        check_name(request.match_info["queue"], "queue name"),
        number(request, "from", 1, ID_MAX),
        {job: (attempt, offset) for job, attempt, offset in offsets},
        [(first, last) for first, last in over],
    )


def _read(name: str, text: str, mark: str, most: tuple[int, ...], count: int) -> list[list[int]]:
    """Return groups of numbers joined by a mark, with commas between the groups: 7:1:4096,9:1:0 or 6-1000,1003-1003."""
    found: list[list[int]] = []
    parts = text.split(",", count) if text else []
    if len(parts) > count:
        raise BadInput(f"{name}: more than {count:,}")
    for part in parts:
        words = part.split(mark)
        numbers = [int(word) for word in words if is_number(word)]
        if len(words) != len(most) or len(numbers) != len(most) or any(map(gt, numbers, most)):
            raise BadInput(f"invalid {name}: {part[:40]!r}; it takes {mark.join('N' * len(most))}")
        found.append(numbers)
    return found
