"""Selectors: how a command says which jobs it means.

`,` is or, `+` is and, and `+` binds tighter: `project:p+failed,tag:team=a`. There are no brackets, so a selector is one
part, some parts that must all hold (`AllOf`), or alternatives of these (`AnyOf`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from grassq.core.names import ALL, STATES, looks_like_name, shown, tag_fault
from grassq.core.syntax.durations import duration_s
from grassq.errors import BadInput

MAX_PARTS = 10_000
#: How many parts a selector may have, with all ids counted as one part, and all states.
COMPOUND_MAX = 32
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


class ByTag(msgspec.Struct, frozen=True, tag="tag"):
    """Every job that has a tag; without a value, with any value of the key."""

    key: str
    value: str | None = None


class BySweep(msgspec.Struct, frozen=True, tag="sweep"):
    """Every job of one sweep."""

    id: int


class Since(msgspec.Struct, frozen=True, tag="since"):
    """Every job that ended within some seconds, or has not ended and was submitted within them."""

    seconds: float
    #: When they began, in seconds since the epoch; None until the broker says what the time is.
    at: float | None = None


Part = ByIds | LastJob | AllJobs | ByState | ByWord | ByQueue | ByName | ByProject | ByToken | ByTag | BySweep | Since


class AllOf(msgspec.Struct, frozen=True, tag="and"):
    """Every job that each of some parts selects."""

    parts: tuple[Part, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="or"):
    """Every job that at least one part selects."""

    parts: tuple[Part | AllOf, ...]


Selector = Part | AllOf | AnyOf


def parse(text: str) -> Selector:
    """Read one selector: an id, `3-7`, `1,4`, `@`, `@~1`, `all`, `failed`, `failed,cancelled`, a queue or a name.

    `project:P` is every job of a project, `P/NAME` those with a name, `P/NAME/12` one of them. `tag:k=v`, `tag:k`,
    `state:failed`, `sweep:12` and `since:2d` say so; `+` is and, `,` is or.
    """
    if not text:
        raise BadInput("an empty selector selects nothing; 'all' selects every job")
    if not text.strip("0123456789,-"):
        return ByIds(ranges=_ranges(text))
    if "," in text or "+" in text:
        return _compound(text)
    return _part(text)


def _compound(text: str) -> Selector:
    """Read parts that are joined: first the alternatives, then what must hold in each of them."""
    if text.count(",") + text.count("+") >= MAX_PARTS:
        raise BadInput(f"a selector has at most {MAX_PARTS} parts")
    alternatives: list[Part | AllOf] = []
    ranges: list[tuple[int, int]] = []
    states: list[str] = []
    for each in text.split(","):
        found = _all_of(each, text) if "+" in each else _part(_not_empty(each, text))
        match found:
            case ByIds(some):
                ranges += some
            case ByState(names):
                states += names
            case _:
                alternatives.append(found)
    if states:
        alternatives.insert(0, ByState(names=tuple(dict.fromkeys(states))))
    if ranges:
        alternatives.insert(0, ByIds(ranges=tuple(ranges)))
    if sum(len(each.parts) if isinstance(each, AllOf) else 1 for each in alternatives) > COMPOUND_MAX:
        raise BadInput(f"a selector has at most {COMPOUND_MAX} parts, with all ids counted as one, and all states")
    once = tuple(dict.fromkeys(alternatives))
    return once[0] if len(once) == 1 else AnyOf(once)


def _all_of(text: str, whole: str) -> Part | AllOf:
    parts = tuple(dict.fromkeys([_part(_not_empty(each, whole)) for each in text.split("+")]))
    return parts[0] if len(parts) == 1 else AllOf(parts)


def _not_empty(part: str, text: str) -> str:
    if not part:
        raise BadInput(f"{shown(text)} has an empty part; ',' is or, '+' is and, as in failed+since:2d,@")
    return part


def _part(text: str) -> Part:
    """Read one part of a selector."""
    if text[0] in "0123456789-" and not looks_like_name(text) and "/" not in text:
        return ByIds(ranges=_ranges(text))
    if text[0] == "@":
        return _last(text)
    if text == ALL:
        return AllJobs()
    if text in STATES:
        return ByState(names=(text,))
    kind, colon, name = text.partition(":")
    if colon and kind in _KEYED:
        return _KEYED[kind](name, text)
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


def _state(name: str, text: str) -> ByState:
    if name not in STATES:
        raise BadInput(f"{shown(text)} is not a state: {shown(name)} is none of {', '.join(STATES)}")
    return ByState(names=(name,))


def _tag(name: str, text: str) -> ByTag:
    key, equals, value = name.partition("=")
    if (fault := tag_fault(key, value if equals else "any")) is not None:
        raise BadInput(f"{shown(text)} is not tag:KEY=VALUE or tag:KEY: {fault}")
    return ByTag(key, value if equals else None)


def _sweep(name: str, text: str) -> BySweep:
    if not (name.isascii() and name.isdigit()):
        raise BadInput(f"{shown(text)} is not a sweep: after sweep: comes its id, such as sweep:12")
    return BySweep(_number(name, text))


def _since(name: str, text: str) -> Since:
    return Since(duration_s(name, "since:"))


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
            f"{shown(text)} is not a selector: expected an id, 3-7, 1,4, @, all, a state, a queue, a name, project:P, "
            "P/NAME, tag:k=v, since:2d, or these joined by + (and) and , (or)"
        )
    return name


#: The parts that begin with a word and a colon, and cannot be anything else.
_KEYED: dict[str, Callable[[str, str], Part]] = {
    "queue": lambda name, text: ByQueue(name=_named(name, text)),
    "name": lambda name, text: ByName(name=_named(name, text)),
    "project": lambda name, text: ByProject(name=_named(name, text)),
    "state": _state,
    "tag": _tag,
    "sweep": _sweep,
    "since": _since,
}
