"""Draws the pictures of `docs/performance.md` from what `growth` and `packing` wrote with `--json`.

`python -m bench plot GROWTH.json PACKING.json`; without files it draws again what lies beside the pictures. They are
plain SVG with text as text, in colours that can be read on white and on black.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "performance"
KINDS = ("blocked", "antichain")
DIMS = (1, 2, 3, 4)
#: Bytes a shape may take.
BYTES_MOST = 400
#: Copies of the figures say no more than this.
DIGITS = 4

#: Middle tones: each has a contrast of at least 3 with white and with black.
COLOURS = ("#3b82f6", "#d97706", "#16a34a", "#c026d3")
TEXT, FAINT = "#6e7781", "#8b949e"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
HIGH = 1.25


class Line(NamedTuple):
    """One curve: what it is called, its colour, and its points."""

    name: str
    colour: str
    points: list[tuple[float, float]]
    #: A reference, drawn thin and broken.
    dashed: bool = False


class Box(NamedTuple):
    """Where a panel lies."""

    left: float
    top: float
    width: float
    height: float


class Scale(NamedTuple):
    """From a value to a position, along a logarithm or not."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies."""
        low, high, here = (math.log10(each) if self.log else each for each in (self.low, self.high, value))
        return self.start + (here - low) / (high - low) * (self.stop - self.start)


def text(x: float, y: float, words: str, anchor: str = "start", *, size: int = 12, colour: str = TEXT) -> str:
    """Some words."""
    bold = ' font-weight="600"' if size > 12 else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{bold} fill="{colour}">'
        f"{escape(words)}</text>"
    )


def stroke(
    x1: float, y1: float, x2: float, y2: float, *, colour: str = FAINT, width: float = 1, faint: bool = True
) -> str:
    """A straight line."""
    opacity = ' stroke-opacity="0.35"' if faint else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"{opacity}/>'
    )


def bar(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1) -> str:
    """A filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{colour}" '
        f'fill-opacity="{opacity}"/>'
    )


def picture(width: int, height: int, about: str, parts: Sequence[str]) -> str:
    """The whole file; what it is about is for those who cannot see it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="{FONT}" role="img">',
            f"<title>{escape(about)}</title>",
            *parts,
            "</svg>\n",
        ]
    )


def curve(line: Line, across: Scale, up: Scale) -> list[str]:
    """A curve with a dot on each of its points; a reference has none."""
    placed = [(across.at(x), up.at(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    if line.dashed:
        style = 'stroke-width="1.2" stroke-dasharray="4 4" stroke-opacity="0.8"'
        return [f'<polyline points="{path}" fill="none" stroke="{line.colour}" {style}/>']
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{line.colour}"/>' for x, y in placed]
    return [f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"/>', *dots]


def _decades(low: float, high: float) -> list[float]:
    return [10.0**each for each in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def panel(box: Box, title: str, lines: Sequence[Line], most: float, least: float) -> list[str]:
    """Curves over n, both axes logarithmic, each named at its right end."""
    sizes = [x for line in lines for x, _ in line.points]
    across = Scale(min(sizes), max(sizes), box.left, box.left + box.width, log=True)
    up = Scale(least, most, box.top + box.height, box.top, log=True)
    parts = [text(box.left, box.top - 14, title, size=14)]
    for tick in _decades(least, most):
        parts.append(stroke(box.left, up.at(tick), box.left + box.width, up.at(tick)))
        parts.append(text(box.left - 8, up.at(tick) + 4, f"{tick:,.0f}", "end"))
    for tick in _decades(min(sizes), max(sizes)):
        parts.append(stroke(across.at(tick), box.top, across.at(tick), box.top + box.height))
        parts.append(text(across.at(tick), box.top + box.height + 18, f"{tick:,.0f}", "middle"))
    for line in lines:
        parts += curve(line, across, up)
        if not line.dashed:
            x, y = line.points[-1]
            parts.append(text(across.at(x) + 9, up.at(y) + 4, line.name, colour=line.colour))
    return parts


def growth_picture(rows: list[dict[str, Any]], field: str, what: str, *, references: bool) -> str:
    """How a figure grows with n, on the two sets made to be hard."""
    width, height, gap = 900, 390, 120
    side = (width - 64 - gap - 56) / 2
    groups = {kind: _curves(rows, kind, field, references=references) for kind in KINDS}
    every = [y for lines in groups.values() for line in lines for _, y in line.points]
    parts = []
    for at, (kind, lines) in enumerate(groups.items()):
        box = Box(64 + at * (side + gap), 74, side, height - 74 - 58)
        parts += panel(box, kind, lines, max(every) * HIGH, min(every) / HIGH)
        parts.append(text(box.left + side / 2, height - 18, "distinct request shapes, n", "middle"))
    legend = f"{what[0].upper()}{what[1:]}, with k resource types"
    if references:
        legend += "; broken lines grow as log^k n from the first point"
    parts.append(text(64, 26, legend))
    return picture(width, height, f"{legend}, for 1,000 to 1,000,000 shapes", parts)


def _curves(rows: list[dict[str, Any]], kind: str, field: str, *, references: bool) -> list[Line]:
    lines = []
    for dims, colour in zip(DIMS, COLOURS, strict=True):
        points = [(row["n"], row[field]) for row in rows if row["kind"] == kind and row["k"] == dims]
        if references:
            start, first = points[0]
            steps = [start * (points[-1][0] / start) ** (each / 24) for each in range(25)]
            ideal = [(each, first * (math.log(each) / math.log(start)) ** dims) for each in steps]
            lines.append(Line(f"log^{dims}", colour, ideal, dashed=True))
        lines.append(Line(f"k = {dims}", colour, points))
    return lines


def bytes_picture(rows: list[dict[str, Any]]) -> str:
    """Bytes a shape by the number of resource types: the most of all sets."""
    width, height = 640, 400
    box = Box(60, 60, width - 90, height - 60 - 56)
    weighed = [row for row in rows if row["bytes_a_point"] is not None]
    sizes = sorted({row["n"] for row in weighed})
    up = Scale(0, BYTES_MOST * 1.1, box.top + box.height, box.top)
    parts = []
    for tick in range(0, BYTES_MOST + 1, 100):
        parts.append(stroke(box.left, up.at(tick), box.left + box.width, up.at(tick)))
        parts.append(text(box.left - 8, up.at(tick) + 4, str(tick), "end"))
    group, wide = box.width / len(DIMS), 46
    for at, dims in enumerate(DIMS):
        middle = box.left + group * (at + 0.5)
        parts.append(text(middle, box.top + box.height + 20, f"k = {dims}", "middle"))
        for which, size in enumerate(sizes):
            most = max(row["bytes_a_point"] for row in weighed if row["k"] == dims and row["n"] == size)
            x, y = middle + (which - len(sizes) / 2) * (wide + 4), up.at(most)
            parts.append(bar(x, y, wide, up.start - y, COLOURS[which]))
            parts.append(text(x + wide / 2, y - 5, str(most), "middle"))
    parts.append(stroke(box.left, up.at(BYTES_MOST), box.left + box.width, up.at(BYTES_MOST), width=1.5, faint=False))
    parts.append(text(box.left + 6, up.at(BYTES_MOST) - 6, f"at most {BYTES_MOST}"))
    x = box.left
    for which, size in enumerate(sizes):
        parts += [bar(x, 18, 12, 12, COLOURS[which]), text(x + 18, 28, f"{size:,} shapes")]
        x += 140
    parts.append(text(x + 16, 28, "Bytes a shape, the most of four sets"))
    return picture(width, height, "bytes a shape by the number of resource types, the most of four sets", parts)


def bars_picture(groups: dict[str, dict[str, float]], what: str) -> str:
    """A row for each policy, a column for each kind of trace: by how many per cent the makespan is longer."""
    names = list(next(iter(groups.values())))
    row, left, top = 24, 150, 84
    wide = (900 - left) / len(groups)
    most = max(value for values in groups.values() for value in values.values())
    parts = [text(16, 26, what)]
    for at, name in enumerate(names):
        ours = name.startswith("grass")
        y = top + at * row
        parts.append(text(left - 12, y + 13, name, "end", colour=COLOURS[0] if ours else TEXT))
    for column, (title, values) in enumerate(groups.items()):
        start = left + column * wide
        along = Scale(0, most, start, start + wide - 64)
        parts.append(text(start, top - 16, title))
        parts.append(stroke(start, top - 6, start, top + len(names) * row, faint=False))
        for at, name in enumerate(names):
            y = top + at * row
            colour = COLOURS[0] if name.startswith("grass") else FAINT
            parts.append(bar(start, y + 2, along.at(values[name]) - start, row - 8, colour, 0.9))
            parts.append(text(along.at(values[name]) + 6, y + 13, f"{values[name]:.1f} %"))
    return picture(900, top + len(names) * row + 20, what, parts)


def small_gaps(packing: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Per cent over the shortest schedule, by kind of case and policy."""
    return {
        family: {name: 100 * (gap["mean"] - 1) for name, gap in policies.items()}
        for family, policies in packing["small"].items()
    }


def large_gaps(packing: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Per cent over a time that no schedule beats, by kind of trace and policy."""
    return {
        preset: {
            name: 100 * (statistics.fmean(each["policies"][name]["makespan"] / each["bound"] for each in found) - 1)
            for name in found[0]["policies"]
        }
        for preset, found in packing["large"].items()
    }


def _short(value: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_short(each) for each in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _compact(value: Any, depth: int) -> str:
    """JSON with a line for each entry down to a depth, so that a change can be read."""
    if depth == 0 or not isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_compact(each, depth - 1)}" for name, each in value.items()]
        return "{\n" + ",\n".join(parts) + "\n}"
    return "[\n" + ",\n".join(_compact(each, depth - 1) for each in value) + "\n]"


def pictures(rows: list[dict[str, Any]], packing: dict[str, Any]) -> dict[str, str]:
    """Every file by its name."""
    cases, jobs = packing["cases"], packing["jobs"]
    return {
        "looks.svg": growth_picture(rows, "looks", "looks a decision", references=True),
        "time.svg": growth_picture(rows, "us", "microseconds a decision", references=False),
        "bytes.svg": bytes_picture(rows),
        "packing-small.svg": bars_picture(
            small_gaps(packing), f"Longer than the shortest schedule, mean of {cases} cases of 4 to 7 jobs each"
        ),
        "packing-large.svg": bars_picture(
            large_gaps(packing), f"Longer than a time no schedule beats, mean over traces of {jobs:,} jobs"
        ),
        "growth.json": _compact(_short(rows), 1) + "\n",
        "packing.json": _compact(_short(packing), 4) + "\n",
    }


def main(argv: list[str]) -> int:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(prog="python -m bench plot", description=__doc__)
    parser.add_argument("growth", metavar="GROWTH.json", nargs="?", default=FOLDER / "growth.json", type=Path)
    parser.add_argument("packing", metavar="PACKING.json", nargs="?", default=FOLDER / "packing.json", type=Path)
    parser.add_argument("--to", metavar="FOLDER", default=FOLDER, type=Path, help="write there")
    chosen = parser.parse_args(argv)
    made = pictures(json.loads(chosen.growth.read_text()), json.loads(chosen.packing.read_text()))
    chosen.to.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (chosen.to / name).write_text(content)
        print(chosen.to / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
