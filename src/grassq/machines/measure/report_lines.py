"""The lines of a machine's report about itself: a word and a value each, believed only within bounds.

A line that cannot be read counts as not there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator

from grassq.core.printable import printable
from grassq.machines.transport import LinkLost, Stream

#: The lines around a report; what is before the first comes from the login shell.
BEGIN = b"grass-probe 1"
END = b"grass-probe end"
#: The bytes of a report and of what comes before it, the bytes of one line, and the time until the report is whole.
REPORT_BYTES_MAX = 1 << 20
NOISE_BYTES_MAX = 1 << 20
LINE_BYTES_MAX = 256 << 10
REPORT_S = 60.0
#: The most lines with one word that are read; the rest is left out.
LINES_MAX = 4096
#: The longest text that is kept, such as the name of a device or a user.
TEXT_MAX = 200
PID_MAX = 1 << 31

_SECONDS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?(?:[^0-9].*)?")
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}")


def read_report(
    stream: Stream, within_s: float = REPORT_S, *, clock: Callable[[], float] = time.monotonic
) -> tuple[bytes, int]:
    """Return the lines of a report, and how many bytes the login shell printed before."""
    deadline = clock() + within_s
    noise = stream.skip_to(BEGIN, NOISE_BYTES_MAX, within_s)
    lines: list[bytes] = []
    size = 0
    while (line := stream.read_line(LINE_BYTES_MAX, max(0.0, deadline - clock()))) != END:
        size += len(line) + 1
        if size > REPORT_BYTES_MAX:
            raise LinkLost(0, f"the machine's report about itself has more than {REPORT_BYTES_MAX:,} bytes")
        lines.append(line)
    return b"\n".join(lines), noise


class ReportLines:
    """The values of a report, by the word before each."""

    def __init__(self, report: bytes) -> None:
        self._values: dict[str, list[str]] = {}
        for line in report[:REPORT_BYTES_MAX].decode("utf-8", "replace").split("\n"):
            key, _, value = line.partition(" ")
            values = self._values.setdefault(key, [])
            if value and len(values) < LINES_MAX:
                values.append(value)

    def has(self, key: str) -> bool:
        """Tell whether a report has a value of this word."""
        return bool(self._values.get(key))

    def all(self, key: str) -> list[str]:
        """Return all values of a word."""
        return self._values.get(key, [])

    def first(self, key: str) -> str:
        """Return the first value of a word, "" if there is none."""
        return next(iter(self.all(key)), "")

    def text(self, key: str) -> str:
        """Return the first value of a word, for people."""
        return text(self.first(key))

    def number(self, key: str, most: int) -> int | None:
        """Return the first value of a word, a whole number from 0 to `most`."""
        return number(self.first(key), most)

    def seconds(self, key: str) -> float | None:
        """Return the first value of a word, a time."""
        return seconds(self.first(key))

    def version(self, key: str) -> str | None:
        """Return the first number with points in the value of a word."""
        found = _VERSION.search(self.first(key)[:TEXT_MAX])
        return None if found is None else found[0]

    def is_yes(self, key: str) -> bool | None:
        """Read `yes` and `no`, and the same in the words of busctl; None for everything else."""
        return {"yes": True, "no": False, "b true": True, "b false": False}.get(self.first(key).strip())


def text(value: str) -> str:
    """Return a text made printable and cut."""
    return printable(value.strip(), TEXT_MAX)


def seconds(value: str) -> float | None:
    """Return a time such as 17.25; what follows the number is dropped. None for everything else."""
    found = _SECONDS.fullmatch(value.strip())
    return None if found is None else float(f"{found[1]}.{found[2] or 0}")


def number(value: str, most: int) -> int | None:
    """Return a whole number from 0 to `most`; None for everything else."""
    digits = value.strip()
    if not (0 < len(digits) <= 20 and digits.isascii() and digits.isdigit()):
        return None
    found = int(digits)
    return found if found <= most else None


def numbers(values: Iterable[str], most: int) -> Iterator[int]:
    """Yield the values that are whole numbers from 0 to `most`."""
    for value in values:
        if (found := number(value, most)) is not None:
            yield found
