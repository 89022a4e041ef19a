"""What was measured: rows, as text for people and as data."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from grassq import __version__

#: Digits after the point.
DIGITS = {"ms": 1, "s": 2}


class Row(NamedTuple):
    """One measurement: times of ours and, where there is something to compare with, of the reference."""

    name: str
    unit: str
    ours: list[float]
    reference: list[float]
    #: What the reference is; without one, what the time goes from and to.
    against: str
    #: How many jobs one round has, to tell jobs per second.
    jobs: int = 0

    def document(self) -> dict[str, object]:
        """The row as data, the ratios included."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": _digest(self.ours, self.jobs),
            "reference": _digest(self.reference, self.jobs) if self.reference else None,
            "against": self.against,
            "ratio_of_minima": self._ratio(min),
            "ratio_of_medians": self._ratio(statistics.median),
        }

    def _ratio(self, middle: _Middle) -> float | None:
        return round(middle(self.ours) / middle(self.reference), 3) if self.reference else None

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        times = [
            self._time(middle, side) for side in (self.ours, self.reference) for middle in (min, statistics.median)
        ]
        ratios = [
            "-" if (ratio := self._ratio(middle)) is None else f"{ratio:.2f}" for middle in (min, statistics.median)
        ]
        return (self.name, *times, *ratios, str(len(self.ours)))

    def _time(self, middle: _Middle, side: list[float]) -> str:
        return f"{middle(side):.{DIGITS[self.unit]}f} {self.unit}" if side else "-"

    def notes(self) -> str:
        """What the table has no room for."""
        text = f"{self.name}: " + (f"against {self.against}" if self.reference else self.against)
        if self.jobs:
            rates = [
                f"{self.jobs * 1000 / statistics.median(side):.0f}" for side in (self.ours, self.reference) if side
            ]
            text += f"; jobs per second: {' and '.join(rates)}"
        return text


class _Middle(Protocol):
    def __call__(self, times: Sequence[float], /) -> float: ...


class Skipped(NamedTuple):
    """A measurement that cannot be made here, and why."""

    name: str
    why: str


def machine(load_before: float | None = None) -> dict[str, object]:
    """Return where it was measured; with the load before, also the load now."""
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    about: dict[str, object] = {
        "cores": len(os.sched_getaffinity(0)),
        "system": release.get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        "grassq": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    if load_before is not None:
        about |= {"load_before": round(load_before, 2), "load_after": round(os.getloadavg()[0], 2)}
    return about


def document(rows: list[Row], skipped: list[Skipped]) -> dict[str, object]:
    """Everything as data."""
    return {
        "machine": machine(),
        "rows": [row.document() for row in rows],
        "skipped": [each._asdict() for each in skipped],
    }


def show(rows: list[Row], skipped: list[Skipped]) -> None:
    """Print the table."""
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print()
    head = ("WHAT", "OURS min", "median", "REFERENCE min", "median", "RATIO min", "median", "ROUNDS")
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()
    for row in rows:
        print(row.notes())
    for each in skipped:
        print(f"{each.name}: not measured, {each.why}")


def tell_figures(figures: dict[str, object], load_before: float, file: str | None) -> None:
    """Print the machine and the figures, a line each; with a file, write them there as JSON too."""
    about = _tell_machine(load_before)
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):<{width}} {value}")
    _write(file, {"machine": about, **figures})


def tell_rows(rows: list[dict[str, object]], load_before: float, file: str | None, **about_all: object) -> None:
    """Print the machine and the rows, a column for each name; with a file, write them and `about_all` as JSON too."""
    about = _tell_machine(load_before)
    lines = [
        [name.replace("_", " ").upper() for name in rows[0]],
        *([str(each) for each in row.values()] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *cells]))
    _write(file, {"machine": about, **about_all, "rows": rows})


def _tell_machine(load_before: float) -> dict[str, object]:
    about = machine(load_before)
    print(", ".join(f"{name} {value}" for name, value in about.items()), end="\n\n")
    return about


def _write(file: str | None, content: dict[str, object]) -> None:
    if file:
        Path(file).write_text(json.dumps(content, indent=1) + "\n")


def _digest(times: list[float], jobs: int) -> dict[str, object]:
    digest: dict[str, object] = {
        "min": round(min(times), 3),
        "median": round(statistics.median(times), 3),
        "count": len(times),
        "all": [round(each, 3) for each in times],
    }
    return digest | ({"jobs_per_second": round(jobs * 1000 / statistics.median(times), 1)} if jobs else {})
