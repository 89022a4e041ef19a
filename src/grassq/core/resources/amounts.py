"""Amounts and requests: how much of which resource a job asks for.

An amount is an integer count of millionths, so ten requests of 0.1 fill a device exactly. Memory and disk count in MiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation

from grassq.core.job_options import LOG_MAX_MAX
from grassq.core.names import shown
from grassq.core.syntax.options import resource_name_fault
from grassq.core.syntax.resource_names import SIZES
from grassq.errors import BadInput

ONE = 1_000_000
#: The least a log can be limited to: the line that marks the cut must fit into what is cut out.
LOG_MAX_MIN = 64 << 10
UNITS_MAX = 10**9
#: Resources in one request or one capacity.
NAMES_MAX = 64

_SIZE = re.compile(r"(?P<number>[^A-Za-z]*)(?P<unit>[KMGT])(i?B)?", re.IGNORECASE | re.ASCII)
_FINEST = Decimal(1) / ONE
_MIB = {"K": Decimal(1) / 1024, "M": Decimal(1), "G": Decimal(1024), "T": Decimal(1024) ** 2}

#: What a job asks for: sorted (name, amount) pairs, so equal requests are equal values.
Request = tuple[tuple[str, int], ...]
#: What an attempt holds: an amount of a pool, or an amount of each device.
Allocation = dict[str, int | dict[str, int]]
#: Amounts as JSON has them, by resource: a number of a pool, or a number for each device.
Amounts = dict[str, float | dict[str, float]]


def check_resource_name(name: str) -> str:
    """Return a resource name in lower case, or refuse it."""
    if (fault := resource_name_fault(name)) is not None:
        raise BadInput(fault)
    return name.lower()


def check_count(amounts: Mapping[str, object]) -> None:
    """Refuse more than NAMES_MAX resources."""
    if len(amounts) > NAMES_MAX:
        raise BadInput(f"{len(amounts):,} resources are named; at most {NAMES_MAX} can be")


def parse_amounts(amounts: Mapping[str, object], what: str) -> dict[str, int]:
    """Read amounts by resource, sorted by name; `what` says in an error what a resource is that is named twice."""
    check_count(amounts)
    read: dict[str, int] = {}
    for raw, value in amounts.items():
        name = check_resource_name(raw)
        if name in read:
            raise BadInput(f"{name} is {what} twice")
        read[name] = parse_amount(name, value)
    return dict(sorted(read.items()))


def parse_amount(name: str, value: object) -> int:
    """Read an amount such as 0.5, "2.5" or "16G" (sizes only) as millionths."""
    number, unit = _decimal(name, value)
    if not number.is_finite() or number < 0:
        raise BadInput(f"{name}: {value!r} is not an amount; it must be a finite number, 0 or more")
    # Comparing is exact where multiplying would overflow (1e9999999) or round.
    if number > UNITS_MAX / unit:
        raise BadInput(f"{name}: {value!r} is more than {UNITS_MAX:,}, the most Grass counts")
    if name in SIZES:
        return int((number * unit * ONE).to_integral_value(rounding=ROUND_CEILING))
    if number != number.quantize(_FINEST):
        raise BadInput(f"{name}: {value!r} is finer than a millionth; use at most six decimals")
    return int(number * ONE)


def _decimal(name: str, value: object) -> tuple[Decimal, Decimal]:
    """Return the number as written, and the size of its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadInput(f"{name}: {value!r} is not an amount; write a number such as 1 or 0.5")
    text = value.strip() if isinstance(value, str) else repr(value)
    factor = Decimal(1)
    size = _SIZE.fullmatch(text) if name in SIZES else None
    if size:
        text, factor = size["number"], _MIB[size["unit"].upper()]
    if len(text) > 64 or "_" in text:
        raise BadInput(f"{name}: {text[:64]!r} is not an amount; write a number such as 1 or 0.5")
    try:
        return Decimal(text), factor
    except InvalidOperation:
        hint = "a number of MiB, or 512M, 16G" if name in SIZES else "a number such as 1 or 0.5"
        raise BadInput(f"{name}: {value!r} is not an amount; write {hint}") from None


def size_bytes(text: str, what: str, example: str = "500M or 2G") -> int:
    """Read a size such as 500M, 2G or 1.5T as bytes; a number without a unit counts MiB."""
    try:
        return -(-parse_amount("disk", text) * (1 << 20) // ONE)
    except BadInput:
        raise BadInput(f"{what} needs a size such as {example}, not {shown(text)}") from None


def log_limit(text: str, what: str) -> int:
    """Read the limit of a log as bytes: a size, or 0 or `none` for no limit."""
    if text.strip().lower() in ("", "0", "none"):
        return 0
    size = size_bytes(text, what, "500M or 2G, or none")
    if not LOG_MAX_MIN <= size <= LOG_MAX_MAX:
        raise BadInput(f"{what} must be from {LOG_MAX_MIN >> 10}K to {LOG_MAX_MAX >> 40}T, or none, not {shown(text)}")
    return size


def parse_request(amounts: Mapping[str, object]) -> Request:
    """Read what a job asks for; amounts of 0 ask for nothing."""
    return tuple([(name, amount) for name, amount in parse_amounts(amounts, "asked for").items() if amount])


def amount_text(amount: int) -> str:
    """Write an amount without needless zeros: 0.5, 2, 1.25."""
    whole, part = divmod(amount, ONE)
    return f"{whole}.{part:06d}".rstrip("0") if part else str(whole)


def amount_number(amount: int) -> int | float:
    """Return an amount as a JSON number."""
    return amount // ONE if amount % ONE == 0 else amount / ONE


def request_text(request: Request) -> str:
    """Return a request in words: gpu 0.5, cpu 4."""
    return ", ".join(f"{name} {amount_text(amount)}" for name, amount in request) or "nothing"


def allocation_json(allocation: Allocation | None) -> Amounts | None:
    """Return an allocation as a JSON document: {"gpu": {"0": 1.0}, "cpu": 4}."""
    if allocation is None:
        return None
    return {
        name: {device: amount / ONE for device, amount in held.items()}
        if isinstance(held, dict)
        else amount_number(held)
        for name, held in allocation.items()
    }
