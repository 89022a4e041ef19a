"""Selectors: how a command says which jobs it means."""

from __future__ import annotations

import re

import msgspec

from grassq.core.names import ALL, STATES, looks_like_name, shown
from grassq.errors import BadInput

MAX_PARTS = 10_000
MAX_NUMBER = 10**15
_MAX_DIGITS = 16

_PART = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_TOKEN = re.compile(r"[0-9a-f]{8}")
_LAST = re.compile(r"@(?:~([0-9]+))?")


class ByIds(msgspec.Struct, frozen=True, tag="ids"):
    """Jobs by id: inclusive ranges, in the order they were typed."""

    ranges: tuple[tuple[int, int], ...]


class LastJob(msgspec.Struct, frozen=True, tag="last"):
    """The job submitted last, or `back` jobs before it."""

    back: int = 0


class AllJobs(msgspec.Struct, frozen=True, tag="all"):
    """Every job."""


class ByState(msgspec.Struct, frozen=True, tag="state"):
    """Every job in one of some states."""

    names: tuple[str, ...]


class ByWord(msgspec.Struct, frozen=True, tag="word"):
    """The queue of this name, or else the jobs of this name."""

    text: str


class ByQueue(msgspec.Struct, frozen=True, tag="queue"):
    """Every job of one queue, from an id on."""

    name: str
    first: int = 0


class ByName(msgspec.Struct, frozen=True, tag="name"):
    """Every job with one name."""

    name: str


class ByProject(msgspec.Struct, frozen=True, tag="project"):
    """Every job of one project; with `job` those with one name, with `id` the one with this id."""

    name: str
    job: str | None = None
    id: int | None = None


class ByToken(msgspec.Struct, frozen=True, tag="token"):
    """Every unfinished job that a token answers for."""

    id: str


Selector = ByIds | LastJob | AllJobs | ByState | ByWord | ByQueue | ByName | ByProject | ByToken


def parse(text: str) -> Selector:
    """Read one selector: an id, `3-7`, `1,4`, `@`, `@~1`, `all`, `failed`, `failed,cancelled`, a queue or a name.

    `project:P` is every job of a project, `P/NAME` those with a name, `P/NAME/12` one of them.
    """
    if not text:
        raise BadInput("an empty selector selects nothing; 'all' selects every job")
    if text[0] in "0123456789,-" and not looks_like_name(text):
        return ByIds(ranges=_ranges(text))
    if text[0] == "@":
        return _last(text)
    if text == ALL:
        return AllJobs()
    if text in STATES:
        return ByState(names=(text,))
    if "," in text:
        return ByState(names=_states(text))
    kind, colon, name = text.partition(":")
    if colon and kind == "queue":
        return ByQueue(name=_named(name, text))
    if colon and kind == "name":
        return ByName(name=_named(name, text))
    if colon and kind == "project":
        return ByProject(name=_named(name, text))
    if "/" in text:
        return _in_project(text)
    if colon and kind == "token" and _TOKEN.fullmatch(name):
        return ByToken(id=name)
    return ByWord(text=_named(text, text))


def _in_project(text: str) -> ByProject:
    project, job, *rest = text.split("/", 3)
    number = _PART.fullmatch(rest[0]) if len(rest) == 1 else None
    if rest and (number is None or number[2] is not None):
        raise BadInput(f"{shown(text)} is not a job of a project: expected PROJECT/NAME or PROJECT/NAME/ID")
    return ByProject(_named(project, text), _named(job, text), None if number is None else _number(number[1], text))


def _states(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",", len(STATES))))
    if wrong := [name for name in names if name not in STATES]:
        raise BadInput(f"{shown(text)} is not a list of states: {shown(wrong[0])} is none of {', '.join(STATES)}")
    return names


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(",")
    if len(parts) > MAX_PARTS:
        raise BadInput(f"a selector may list at most {MAX_PARTS} ids or ranges, not {len(parts)}")
    return tuple(_range(part, text) for part in parts)


def _range(part: str, text: str) -> tuple[int, int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise BadInput(f"{shown(text)} is not a job id, a range like 3-7 or a list like 1,4,9-12")
    low = _number(match[1], text)
    high = low if match[2] is None else _number(match[2], text)
    if high < low:
        raise BadInput(f"the range {shown(part)} is backwards; write {high}-{low}")
    return low, high


def _last(text: str) -> LastJob:
    match = _LAST.fullmatch(text)
    if match is None:
        raise BadInput(f"{shown(text)} is not '@' (the last job) or '@~1' (the one before it)")
    return LastJob(back=0 if match[1] is None else _number(match[1], text))


def _number(digits: str, text: str) -> int:
    # Counted before converting: int() itself refuses thousands of digits, and not as BadInput.
    if len(digits) > _MAX_DIGITS or int(digits) > MAX_NUMBER:
        raise BadInput(f"{shown(text)} holds a number too large to be a job")
    return int(digits)


def _named(name: str, text: str) -> str:
    if not looks_like_name(name):
        raise BadInput(
            f"{shown(text)} is not a selector: expected an id, 3-7, 1,4, @, all, a state, a queue, a name, project:P "
            "or P/NAME"
        )
    return name
