"""Ranges as values of a parameter: `0..4`, `0..1:0.25`, `32..256*2`, `lin:0..1:5` and `log:1e-5..1e-1:20`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, DecimalException
from math import log10

from grassq.core.names import shown
from grassq.errors import BadInput

#: The values of one range, and the characters of a number in it.
RANGE_VALUES_MAX = 100_000
NUMBER_CHARS_MAX = 30
#: The size of a number in a range: its exponent, so that no number takes long to write.
EXPONENT_MAX = 300
#: Digits that a computed number keeps: fewer than a float has, so that 0.0001 is not 0.00010000000000000002.
DIGITS = 12

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# A word that begins with a number and two dots is a range; any other word is a value, such as `../data`.
_RANGE = re.compile(rf"(?:(?P<kind>log|lin):)?(?P<first>{_NUMBER})\.\.(?P<rest>.*)", re.DOTALL)
_REST = re.compile(rf"(?P<last>{_NUMBER})(?:(?P<how>[:*])(?P<by>{_NUMBER}))?")


def expanded(values: Iterable[str], name: str = "") -> list[str]:
    """Return the values of a parameter with each range replaced by its values; raise BadInput for a bad range."""
    found: list[str] = []
    for value in values:
        found += _values(value, name)
        if len(found) > RANGE_VALUES_MAX:
            raise BadInput(f"parameter {shown(name)} has more than {RANGE_VALUES_MAX:,} values")
    return found


def _values(value: str, name: str) -> list[str]:
    match = _RANGE.fullmatch(value)
    if match is None:
        if value.startswith(("log:", "lin:")):
            raise _fault(value, name, f"write {value[:4]}FIRST..LAST:COUNT")
        return [value]
    rest = _REST.fullmatch(match["rest"])
    if rest is None:
        why = "it has no end" if not match["rest"] else f"{shown(match['rest'])} is not an end and a step"
        raise _fault(value, name, f"{why}; write 0..4, 0..1:0.25, 32..256*2 or log:1e-5..1e-1:20")
    first, last = (_number(each, value, name) for each in (match["first"], rest["last"]))
    if last < first:
        raise _fault(value, name, f"it is backwards; write {rest['last']}..{match['first']}")
    if match["kind"] is not None:
        return _spaced(first, last, match["kind"], rest, value, name)
    by = Decimal(1) if rest["by"] is None else _number(rest["by"], value, name)
    numbers = (
        _multiplied(first, last, by, value, name) if rest["how"] == "*" else _stepped(first, last, by, value, name)
    )
    return [_written(number) for number in numbers]


def _stepped(first: Decimal, last: Decimal, step: Decimal, value: str, name: str) -> list[Decimal]:
    if step <= 0:
        raise _fault(value, name, "its step must be more than 0")
    count = (last - first) / step
    _check_count(count, value, name)
    return [first + step * place for place in range(int(count) + 1)]


def _multiplied(first: Decimal, last: Decimal, factor: Decimal, value: str, name: str) -> list[Decimal]:
    if factor <= 1 or first <= 0:
        raise _fault(value, name, "it begins above 0 and its factor is more than 1, as in 32..256*2")
    found = [first]
    while (number := found[-1] * factor) <= last:
        _check_count(Decimal(len(found)), value, name)
        found.append(number)
    return found


def _spaced(first: Decimal, last: Decimal, kind: str, rest: re.Match[str], value: str, name: str) -> list[str]:
    """Return a number of values with equal distances, or equal ratios; both ends are exact."""
    typed = rest["by"] if rest["how"] == ":" and rest["by"].isdigit() else "0"
    count = int(_number(typed, value, name))
    if count < 2:
        raise _fault(value, name, f"it needs how many values, 2 or more: {kind}:FIRST..LAST:COUNT")
    if kind == "log" and first <= 0:
        raise _fault(value, name, "a logarithm needs numbers above 0")
    _check_count(Decimal(count - 1), value, name)
    low, high, found = float(first), float(last), []
    if kind == "log":
        # The ratio of the ends may be no float, though both ends are.
        low, high = log10(low), log10(high)
    for place in range(1, count - 1):
        number = low + (high - low) * (place / (count - 1))
        number = 10.0**number if kind == "log" else number
        found.append(_written(Decimal(f"{number:.{DIGITS}g}")))
    values = [_written(first), *found, _written(last)]
    if len(dict.fromkeys(values)) < count:
        raise _fault(value, name, f"{count} values do not fit between its ends")
    return values


def _number(text: str, value: str, name: str) -> Decimal:
    if len(text) > NUMBER_CHARS_MAX:
        raise _fault(value, name, f"a number in it has more than {NUMBER_CHARS_MAX} characters")
    try:
        number = Decimal(text)
    except DecimalException:
        raise _fault(value, name, f"{shown(text)} is not a number") from None
    if number and abs(number.adjusted()) > EXPONENT_MAX:
        raise _fault(value, name, f"{shown(text)} is too large or too small")
    return number


def _check_count(count: Decimal, value: str, name: str) -> None:
    if count >= RANGE_VALUES_MAX:
        raise _fault(value, name, f"it has more than {RANGE_VALUES_MAX:,} values")


def _written(number: Decimal) -> str:
    """Return a number in the short way: 32, 0.25, 1e-05."""
    if number == number.to_integral_value() and abs(number) < 10**16:
        return str(int(number))
    return repr(float(number)).removesuffix(".0")


def _fault(value: str, name: str, why: str) -> BadInput:
    where = f"parameter {shown(name)}: " if name else ""
    return BadInput(f"{where}the range {shown(value)} cannot be read: {why}")
