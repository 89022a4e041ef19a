"""What was typed after `/`: selectors and words of a query, which a job must all match; other text is searched for."""

from __future__ import annotations

from typing import NamedTuple

from grassq.core.query.parse import parse_query
from grassq.core.query.query import is_pattern as fits_several
from grassq.core.syntax.selectors import AllJobs, ByIds, ByName, ByQueue, ByState, ByWord, LastJob, parse
from grassq.errors import BadInput


class JobFilter(NamedTuple):
    """Which jobs are shown. Parts that are empty let every job through."""

    states: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    #: How far back from the last job: `@` is 0, `@~1` is 1.
    back: int | None = None
    queue: str | None = None
    name: str | None = None
    worker: str | None = None
    text: str | None = None
    #: A word that may be the name of a queue, else of jobs, else a part of a command.
    word: str | None = None
    #: Words of a query that the daemon reads: `gpu>0`, `since:2d`, `name:lr*`.
    more: tuple[str, ...] = ()


def parse_filter(typed: str) -> JobFilter:
    """Read a filter. Nothing is an error: what is no selector is searched for in names and commands."""
    found = JobFilter()
    texts: list[str] = []
    for part in typed.split():
        kind, colon, value = part.partition(":")
        if colon and kind == "text":
            texts.append(value)
        elif _is_query_word(part):
            found = found._replace(more=(*found.more, part))
        elif colon and kind == "worker" and value:
            found = found._replace(worker=value)
        else:
            merged = _selector(found, f"{value}" if colon and kind == "state" else part)
            if merged is None:
                texts.append(part)
            else:
                found = merged
    if found.word is not None and texts:
        # Several plain words are one text, in the order typed.
        return found._replace(word=None, text=" ".join(part for part in typed.split() if part in (*texts, found.word)))
    return found._replace(text=" ".join(texts)) if texts else found


def _is_query_word(part: str) -> bool:
    """Tell whether a word is one of a query and of nothing that the list asks for by itself."""
    try:
        query = parse_query(part)
    except BadInput:
        return False
    is_pattern = any(map(fits_several, (*query.names, *query.queues, *query.workers)))
    return bool(query.bounds or query.projects or query.tags or query.since_s is not None or is_pattern)


def _selector(found: JobFilter, part: str) -> JobFilter | None:
    """Return the filter with one more selector; None if the part is none, or cannot be joined with the others."""
    try:
        selector = parse(part)
    except BadInput:
        return None
    match selector:
        case AllJobs():
            return found
        case ByIds(ranges):
            return found._replace(ranges=found.ranges + ranges)
        case LastJob(back):
            return found._replace(back=back)
        case ByState(names):
            return found._replace(states=tuple(dict.fromkeys(found.states + names)))
        case ByQueue(name):
            return found._replace(queue=name)
        case ByName(name):
            return found._replace(name=name)
        case ByWord(text) if found.word is None:
            return found._replace(word=text)
        case _:
            return None
