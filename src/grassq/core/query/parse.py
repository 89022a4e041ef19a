"""Reads a query: words with a key, comparisons, selectors, and words that are searched for."""

from __future__ import annotations

import re
from typing import NamedTuple, cast

from msgspec.structs import replace

from grassq.core.names import STATES, shown
from grassq.core.query.query import JOB_NUMBERS, Comparison, Operator, Query
from grassq.core.resources.amounts import parse_amount
from grassq.core.syntax.durations import duration_s
from grassq.core.syntax.options import closest, resource_name_fault
from grassq.core.syntax.resource_names import COMMON_RESOURCES, OTHER_NAMES
from grassq.core.syntax.selectors import AllJobs, ByIds, ByState, BySweep, LastJob, parse
from grassq.errors import BadInput

QUERY_CHARS_MAX = 4000
WORDS_MAX = 200
IDS_MAX = 1000
#: Words such as `@~1`: each is looked up by counting from the last job.
BACK_MAX = 20

#: The keys that are followed by `:`, with what each is followed by.
KEYS = {
    "state": "failed or failed,cancelled",
    "queue": "a queue, with * for any text",
    "name": "a name, with * for any text",
    "worker": "a worker, with * for any text",
    "project": "a project, with * for any text",
    "tag": "key=value or a key, with * for any text",
    "sweep": "the id of a sweep",
    "id": "7, 3-7 or 1,4",
    "since": "2d: jobs that have not ended, or ended in this time",
    "text": "a part of the name or the command",
}
#: The keys that are compared with a number; the name of any resource is another.
NUMBERS = {
    "priority": "30",
    "attempt": "1",
    "exit": "0",
    "age": "2d, the time since the job was submitted",
    "duration": "1h, the time the job runs or ran",
}

_WORD = re.compile(r'(?P<head>[^\s"]*)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"(?P<rest>\S*))?')
_COMPARISON = re.compile(r"(?P<key>[A-Za-z][\w-]*)(?P<operator>>=|<=|>|<|=)(?P<value>\S+)", re.ASCII)
_KEYED = re.compile(r"(?P<key>[A-Za-z][\w-]*):(?P<value>.*)", re.ASCII | re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,12}")


class Word(NamedTuple):
    """One word of a query: what stands before quotes, or all of it, and what stands in quotes."""

    plain: str
    quoted: str | None = None


def parse_query(text: str) -> Query:
    """Read a query; raise BadInput with the word that cannot be read, and what is known."""
    query = Query()
    for word in split(text):
        query = _add(query, word)
    return query


def split(text: str) -> list[Word]:
    """Return the words of a query; quotes keep blanks together, and a backslash keeps a quote."""
    if len(text) > QUERY_CHARS_MAX:
        raise BadInput(f"a query has {QUERY_CHARS_MAX:,} characters at most, not {len(text):,}")
    words: list[Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _WORD.match(text, at)
        assert found is not None
        if found.end() == at or found["rest"]:
            raise BadInput(f'the query has an open or misplaced quote at {shown(text[at : at + 40])}; close it with "')
        quoted = found["quoted"]
        words.append(Word(found["head"], None if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)))
        at = found.end()
    if len(words) > WORDS_MAX:
        raise BadInput(f"a query has {WORDS_MAX} words at most, not {len(words)}")
    return words


def _add(query: Query, word: Word) -> Query:
    """Return a query with one more word."""
    if word.quoted is not None:
        key, colon, rest = word.plain.partition(":")
        if not word.plain:
            return _with_text(query, word.quoted)
        if colon and not rest:
            return _keyed(query, key, word.quoted, f'{word.plain}"{word.quoted}"')
        raise BadInput(f'{shown(word.plain)} cannot stand before a quote; write name:"..." or "..."')
    typed = word.plain
    if (found := _COMPARISON.fullmatch(typed)) and not (found["operator"] == "=" and _is_text(found["key"])):
        return _compared(query, found["key"].lower(), cast(Operator, found["operator"]), found["value"], typed)
    if (found := _KEYED.fullmatch(typed)) is not None and not found["value"].startswith("//"):
        return _keyed(query, found["key"], found["value"], typed)
    return _bare(query, typed)


def _is_text(key: str) -> bool:
    """Tell whether `key=value` is a part of a command such as `lr=0.1`, and no comparison."""
    return key.lower() not in {*JOB_NUMBERS, *COMMON_RESOURCES}


def _bare(query: Query, typed: str) -> Query:
    """Add a word without a key: a selector, or else a text."""
    try:
        selector = parse(typed)
    except BadInput:
        return _with_text(query, typed)
    match selector:
        case AllJobs():
            return query
        case ByIds(ranges):
            return _with_ids(query, ranges, typed)
        case LastJob(back):
            if len(query.back) >= BACK_MAX:
                raise BadInput(f"{shown(typed)}: a query has {BACK_MAX} words such as @~1 at most; use ids such as 3-7")
            return replace(query, back=(*query.back, back))
        case ByState(names):
            return replace(query, states=query.states | set(names))
        case _:
            return _with_text(query, typed)


def _keyed(query: Query, key: str, value: str, typed: str) -> Query:
    """Add a word with a key and `:`."""
    key = key.lower()
    if key in JOB_NUMBERS or OTHER_NAMES.get(key, key) in COMMON_RESOURCES:
        return _compared(query, key, "=", value, typed)
    if key not in KEYS:
        raise _unknown(key, typed)
    if not value:
        raise BadInput(f"{shown(typed)} has nothing after the colon; after {key}: comes {KEYS[key]}")
    match key:
        case "state":
            return _with_states(query, value, typed)
        case "id":
            selector = parse(value)
            if not isinstance(selector, ByIds):
                raise BadInput(f"{shown(typed)}: after id: come ids such as {KEYS['id']}")
            return _with_ids(query, selector.ranges, typed)
        case "sweep":
            meant = parse(f"sweep:{value}")
            if not isinstance(meant, BySweep):
                raise BadInput(f"{shown(typed)}: after sweep: comes {KEYS['sweep']}")
            return replace(query, sweeps=query.sweeps | {meant.id})
        case "since":
            seconds = duration_s(value, "since:")
            return replace(query, since_s=max(seconds, query.since_s or 0.0))
        case "text":
            return _with_text(query, value)
        case _:
            field = f"{key}s"
            return replace(query, **{field: getattr(query, field) | {value}})


def _with_states(query: Query, value: str, typed: str) -> Query:
    names = value.split(",", len(STATES))
    if wrong := [name for name in names if name not in STATES]:
        near = closest(wrong[0], STATES)
        hint = f"did you mean {near}?" if near else f"the states are {', '.join(STATES)}"
        raise BadInput(f"{shown(typed)}: {shown(wrong[0])} is not a state; {hint}")
    return replace(query, states=query.states | set(names))


def _with_ids(query: Query, ranges: tuple[tuple[int, int], ...], typed: str) -> Query:
    ids = tuple(dict.fromkeys((*query.ids, *ranges)))
    if len(ids) > IDS_MAX:
        raise BadInput(f"{shown(typed)}: a query lists {IDS_MAX:,} ids and ranges at most; use ranges such as 3-7")
    return replace(query, ids=ids)


def _with_text(query: Query, text: str) -> Query:
    folded = text.casefold()
    return query if not folded or folded in query.texts else replace(query, texts=(*query.texts, folded))


def _compared(query: Query, key: str, how: Operator, value: str, typed: str) -> Query:
    """Add a comparison."""
    key = OTHER_NAMES.get(key, key)
    if key in ("age", "duration"):
        number = duration_s(value, f"{key}{how}", unit="s")
    elif key in JOB_NUMBERS:
        if _NUMBER.fullmatch(value) is None:
            raise BadInput(f"{shown(typed)}: after {key} comes a whole number such as {NUMBERS[key]}")
        number = int(value)
    else:
        if key in KEYS or resource_name_fault(key) is not None:
            raise BadInput(f"{shown(typed)}: {key} cannot be compared; {_known()}")
        # A resource may have any name, but a misspelt key would only find nothing.
        if key not in COMMON_RESOURCES and (near := closest(key, {*JOB_NUMBERS, *COMMON_RESOURCES})):
            raise BadInput(f"{shown(typed)}: {shown(key)} is not known; did you mean {near}?")
        number = parse_amount(key, value)
    return replace(query, bounds=query.bounds | {Comparison(key, how, number)})


def _unknown(key: str, typed: str) -> BadInput:
    near = closest(key, {*KEYS, *JOB_NUMBERS, *COMMON_RESOURCES})
    hint = f"did you mean {near}:?" if near else _known()
    return BadInput(f"{shown(typed)}: {shown(key)} is not a key; {hint} (in quotes, a word is searched for as it is)")


def _known() -> str:
    keys = ", ".join(f"{key}:" for key in KEYS)
    return f"known are {keys} and {', '.join(NUMBERS)} or a resource with > >= < <= ="
