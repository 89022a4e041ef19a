"""Texts for people: from outside, made safe for a terminal, a log or an exception; and durations.

Programs of users may load this module, so it imports nothing.
"""

from __future__ import annotations

#: The longest text for people, in characters: the rest is cut off.
TEXT_CHARS_MAX = 2000


_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(count: int) -> str:
    """Return a number of bytes in the largest unit that it has one of: 2.0 GiB."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_SIZES) - 1)
    return f"{count / (1 << 10 * power):.{min(power, 1)}f} {_SIZES[power]}"


def printable(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Return a text on one line, without control characters, cut to `chars_max` characters."""
    if len(text) > chars_max:
        text = text[: chars_max - 3] + "..."
    if text.isprintable():
        return text
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return escaped if len(escaped) <= chars_max else escaped[: chars_max - 3] + "..."


def exact_span(seconds: float) -> str:
    """Return a duration that a person has chosen, in all its units: `1d2h`, `1h30m`, `1.5s`."""
    whole, parts = int(seconds), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size:
            parts.append(f"{whole // size}{unit}")
            whole %= size
    left = f"{whole + seconds % 1:.9f}".rstrip("0").rstrip(".")
    return "".join(parts) + (f"{left}s" if left != "0" or not parts else "")


def span(seconds: float) -> str:
    """Return a duration in at most two units: `3m12s`."""
    whole = max(0, int(seconds))
    for unit, size, smaller, smaller_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"
