"""What was measured beside others: as text for people and as data."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from bench.peers.rounds import Figures
from bench.table import machine

BASE = "xargs"
HEAD = ("WHO", "JOBS/s", "of xargs", "SUBMIT", "FIRST INSTRUCTION", "of xargs", "GAP, one slot", "of xargs")


def show(found: Sequence[Figures], title: str) -> None:
    """Print the table, the fastest first."""
    print(title)
    print()
    known = [each for each in found if each.rates or each.starts]
    known.sort(key=lambda each: (-_median(each.rates, 0.0), _median(each.starts, 0.0)))
    base = next((each for each in found if each.name == BASE), Figures(BASE, ""))
    lines = [HEAD, *(_cells(each, base) for each in known)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()
    for each in known:
        print(f"{each.name}: {each.how}")
    for each in found:
        if each.trouble is not None:
            print(f"{each.name}: {'no more than that' if each in known else 'not measured'}, {each.trouble}")
    print()


def compare(found: Sequence[Figures], ours: str) -> None:
    """Say how ours stands to those it is meant to reach."""
    by_name = {each.name: each for each in found}
    pairs: list[tuple[str, str, Callable[[Figures], list[float]]]] = [
        ("jobs per second", BASE, lambda each: each.rates),
        ("submit", "HyperQueue", lambda each: each.submits),
        ("submit to first instruction", "HyperQueue", lambda each: each.starts),
        ("submit to first instruction", "Ray", lambda each: each.starts),
        ("gap between starts on one slot", BASE, lambda each: each.gaps),
    ]
    for what, name, figures in pairs:
        mine, theirs = by_name.get(ours), by_name.get(name)
        if mine and theirs and figures(mine) and figures(theirs):
            ratio = statistics.median(figures(mine)) / statistics.median(figures(theirs))
            print(f"{ours}, {what}: {ratio:.2f} of {name}")


def document(found: Sequence[Figures], jobs: int) -> dict[str, object]:
    """Everything as data."""
    return {"machine": machine(), "jobs": jobs, "contestants": [_digest(each) for each in found]}


def _digest(each: Figures) -> dict[str, object]:
    kinds = {"jobs_per_second": each.rates, "submit_ms": each.submits, "start_ms": each.starts, "gap_ms": each.gaps}
    digest: dict[str, object] = {"name": each.name, "how": each.how, "trouble": each.trouble}
    for kind, values in kinds.items():
        digest[kind] = round(statistics.median(values), 3) if values else None
    # The rounds one by one: medians of few say little.
    return digest | {"rounds": [round(rate, 1) for rate in each.rates]}


def _cells(each: Figures, base: Figures) -> tuple[str, ...]:
    return (
        each.name,
        f"{statistics.median(each.rates):.0f}" if each.rates else "-",
        _ratio(each.rates, base.rates),
        _ms(each.submits),
        _ms(each.starts),
        _ratio(each.starts, base.starts),
        _ms(each.gaps),
        _ratio(each.gaps, base.gaps),
    )


def _ratio(mine: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(mine) / statistics.median(theirs):.2f}" if mine and theirs else "-"


def _ms(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ms" if values else "-"


def _median(values: list[float], without: float) -> float:
    return statistics.median(values) if values else without
