"""Says what changed when a queue was replaced."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from grassq.core.model import Offer
from grassq.core.names import plain
from grassq.core.printable import exact_span
from grassq.core.resources.amounts import amount_text
from grassq.core.resources.capacity import Device, DeviceCount, DeviceIds, Devices
from grassq.core.resources.slots import Slot

NONE = "none"
#: The longest value in the answer, in characters; and how many differences are named, the others are counted.
SHOWN_MAX = 60
NAMED_MAX = 20


def change_note(old: Offer, new: Offer, labels: tuple[Sequence[str], Sequence[str]] = ((), ())) -> list[str]:
    """Return one sentence with all differences, or nothing; `labels` are the old and the new ones of a template."""
    found = changes(old, new)
    before, after = (",".join(each) or NONE for each in labels)
    if before != after:
        found.append(f"labels {before} -> {after}")
    if len(found) > NAMED_MAX:
        found = [*found[:NAMED_MAX], f"and {len(found) - NAMED_MAX} more"]
    return [f"changed: {'; '.join(found)}"] if found else []


def changes(old: Offer, new: Offer) -> list[str]:
    """Return each difference between two definitions of a queue; of a variable only its name."""
    pairs = [
        *((f"limit {name}", _limit(name, old), _limit(name, new)) for name in {**old.limits, **new.limits}),
        ("slots", _slots(old.slots), _slots(new.slots)),
        ("--order", old.order, new.order),
        ("command", _command(old.prefix), _command(new.prefix)),
        ("--wrap", _word(old.wrap), _word(new.wrap)),
        ("--time-limit", _time(old.time_limit_s), _time(new.time_limit_s)),
        ("--max-time-limit", _time(old.max_time_limit_s), _time(new.max_time_limit_s)),
        ("directory", _word(old.cwd), _word(new.cwd)),
        ("--unsecure", _flag(old.unsecure), _flag(new.unsecure)),
        ("--allow-env", _names(old.allow_env), _names(new.allow_env)),
    ]
    found = [f"{what} {before} -> {after}" for what, before, after in pairs if before != after]
    return [*found, *_variables(dict(old.env), dict(new.env))]


def _limit(name: str, offer: Offer) -> str:
    # The limits of a queue with slots are the devices of its slots.
    limit = None if offer.slots else offer.limits.get(name)
    match limit:
        case None:
            return NONE
        case DeviceCount(n):
            return str(n)
        case DeviceIds(ids):
            return plain(f"[{','.join(ids)}]", SHOWN_MAX)
        case Devices(devices):
            return plain("{" + ", ".join(map(_device, devices)) + "}", SHOWN_MAX)
        case _:
            return amount_text(limit.amount)


def _device(device: Device) -> str:
    vram = f" with {amount_text(device.vram)} MiB" if device.vram else ""
    return f"{device.id}: {amount_text(device.worth)}{vram}"


def _slots(slots: Sequence[Slot]) -> str:
    return plain(" ".join(slot.name for slot in slots), SHOWN_MAX) or NONE


def _command(words: Sequence[bytes]) -> str:
    return plain(shlex.join(map(plain, words)), SHOWN_MAX) if words else NONE


def _word(word: bytes | None) -> str:
    return NONE if word is None else plain(word, SHOWN_MAX)


def _time(seconds: float | None) -> str:
    return NONE if seconds is None else exact_span(seconds)


def _names(names: Sequence[bytes]) -> str:
    return plain(",".join(map(_word, names)), SHOWN_MAX) or NONE


def _flag(given: bool) -> str:
    return "yes" if given else "no"


def _variables(old: dict[bytes, bytes], new: dict[bytes, bytes]) -> list[str]:
    found = []
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            change = "added" if name not in old else "removed" if name not in new else "changed"
            found.append(f"variable {_word(name)} {change}")
    return found
