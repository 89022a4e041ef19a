"""Device ids and slots as people type them: `0,1,2`, `0,1 2`, `2-4`, `[0,1]`, `-`. Light: the command line needs it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from grassq.core.names import shown
from grassq.core.syntax.resource_names import SLOTS_OF
from grassq.errors import BadInput

DEVICES_MAX = 4096
#: The most slots a queue can have, the longest name of one, and the most ids in all of them: more are refused.
SLOTS_MAX = 4096
SLOT_CHARS_MAX = 4096
SLOT_IDS_MAX = 65_536

_DEVICE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
#: A slot without a device, and a word that is one slot whatever is in it.
_NONE = "-"
_PAIR = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def check_device_id(name: str, value: object) -> str:
    """Return a device's id as text if a device may be called that, else say what is wrong with it."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _DEVICE_ID.fullmatch(text):
        raise BadInput(f"{name}: {value!r} is not a device id; use whole numbers or names")
    return text


def device_ids(name: str, values: Iterable[object]) -> set[str]:
    """Return the ids of devices as typed; `2-4` is 2, 3 and 4."""
    found: set[str] = set()
    for value in values:
        text = check_device_id(name, value)
        span = _RANGE.fullmatch(text)
        found.update([text] if span is None else _span(text, int(span[1]), int(span[2])))
        if len(found) > DEVICES_MAX:
            raise BadInput(f"{shown(text)} and others name more than {DEVICES_MAX:,} devices")
    return found


def device_order(device: str) -> tuple[bool, int, str]:
    """Return a sort key: numbers first and by value, then names."""
    number = device.isascii() and device.isdigit()
    return (not number, int(device) if number else 0, device)


def slot_names(words: Sequence[str], per_device: int = 1) -> list[str]:
    """Read slots as typed: `0,1,2` or `0 1 2` are three, `0,1 2` is a pair and a single one; `2-4` is 2, 3 and 4.

    `[0,1]` is a pair even if it is alone, and `-` is a slot without a device, whose name is empty.
    `per_device` says how often the whole list is repeated. A name is the ids of its devices, joined by commas.
    """
    names = _names(words)
    slots = [ids_of(name) for name in names]
    for name, ids in zip(names, slots, strict=True):
        again = [id_ for id_, times in Counter(ids).items() if times > 1]
        if again:
            raise BadInput(f"slot {shown(name)} names device {again[0]} twice; a slot has distinct devices")
    if not 1 <= per_device <= SLOTS_MAX or len(names) * per_device > SLOTS_MAX:
        raise BadInput(f"a queue has from 1 to {SLOTS_MAX:,} slots, not {len(names) * per_device:,}")
    named = [id_ for ids in slots for id_ in ids]
    if len(set(named)) > DEVICES_MAX or len(named) * per_device > SLOT_IDS_MAX:
        raise BadInput(f"the slots name more than {DEVICES_MAX:,} devices, or {SLOT_IDS_MAX:,} ids in all of them")
    return names * per_device


def ids_of(name: str) -> tuple[str, ...]:
    """Return the ids of a slot's devices."""
    return tuple(name.split(",")) if name else ()


def _names(words: Sequence[str]) -> list[str]:
    """Return the names of the slots, with ranges written out."""
    if not words:
        raise BadInput("no slot is given; write them as in 0,1,2")
    if len(words) == 1 and not _PAIR.fullmatch(words[0]):
        return ["" if item == _NONE else item for item in _items(words[0], may_be_none=True)]
    names: list[str] = []
    total = 0
    for word in words:
        pair = _PAIR.fullmatch(word)
        items = [] if word == _NONE else _items(pair[1] if pair else word)
        # A range without a comma stands for one slot per number; inside commas it stands for one id per number.
        names += [",".join(items)] if "," in word or pair or not items else items
        if len(names[-1]) > SLOT_CHARS_MAX:
            raise BadInput(f"slot {shown(word)} has a name of more than {SLOT_CHARS_MAX:,} characters")
        if len(names) > SLOTS_MAX or (total := total + len(items)) > SLOT_IDS_MAX:
            raise BadInput(f"more than {SLOTS_MAX:,} slots, or {SLOT_IDS_MAX:,} ids in all of them")
    return names


def _items(word: str, *, may_be_none: bool = False) -> list[str]:
    ids: list[str] = []
    for item in word.split(","):
        text = item.strip()
        if may_be_none and text == _NONE:
            ids.append(text)
            continue
        if not text:
            raise BadInput(f"{shown(word)} has an empty place in it; write slots as in 0,1,2")
        span = _RANGE.fullmatch(text)
        ids += [check_device_id(SLOTS_OF, text)] if span is None else _span(text, int(span[1]), int(span[2]))
        if len(ids) > DEVICES_MAX:
            raise BadInput(f"{shown(word)} names more than {DEVICES_MAX:,} devices")
    return ids


def _span(text: str, low: int, high: int) -> list[str]:
    if high < low:
        raise BadInput(f"the range {shown(text)} runs backwards; write {high}-{low}")
    if high - low >= DEVICES_MAX:
        raise BadInput(f"the range {shown(text)} holds more than {DEVICES_MAX:,} devices")
    return [str(number) for number in range(low, high + 1)]
