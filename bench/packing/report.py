"""Run every policy on every case and print the ratios."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import NamedTuple

from bench.packing.clock import Figures, run
from bench.packing.optimum import optimum
from bench.packing.policies import GRASS, LIMITED_POLICIES, POLICIES
from bench.packing.traces import FAMILIES, PRESETS, Family, Preset, lower_bound, small_case, trace, with_limits
from bench.table import machine

SEEDS = 5
JOBS = 1000
CASES = 400
#: With --quick: to see that it works.
QUICK_SEEDS, QUICK_JOBS, QUICK_CASES = 1, 300, 40


class Gap(NamedTuple):
    """How much longer the schedules of a policy are than the shortest ones, over many cases."""

    mean: float
    most_of_20: float
    worst: float
    #: The share of cases in which they are the shortest.
    exact: float


def small(family: Family, cases: int) -> dict[str, Gap]:
    """Every policy against the optimum, on small cases of one kind."""
    ratios: dict[str, list[float]] = {name: [] for name in POLICIES}
    for seed in range(cases):
        tasks, machines = small_case(family, seed)
        spans = {
            name: run(tasks, [each.empty() for each in machines], policy(machines))[0].makespan
            for name, policy in POLICIES.items()
        }
        best = optimum(tasks, machines, min(span for name, span in spans.items() if not name.startswith(GRASS)))
        for name, span in spans.items():
            if span < best:
                raise AssertionError(f"{family.name}, seed {seed}: {name} takes {span} s, the optimum {best} s")
            ratios[name].append(span / best)
    return {name: _gap(each) for name, each in ratios.items()}


def _gap(ratios: list[float]) -> Gap:
    ordered = sorted(ratios)
    return Gap(
        statistics.fmean(ratios),
        ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)],
        ordered[-1],
        sum(ratio == 1 for ratio in ratios) / len(ratios),
    )


class Large(NamedTuple):
    """One trace: a time no schedule beats, and what came of every policy."""

    seed: int
    bound: int
    figures: dict[str, Figures]


def large(preset: Preset, jobs: int, seeds: int, *, limits: bool = False) -> list[Large]:
    """Every policy on traces of one kind, with time limits or without."""
    found = []
    for seed in range(seeds):
        tasks = with_limits(trace(preset, jobs, seed), seed) if limits else trace(preset, jobs, seed)
        policies = LIMITED_POLICIES if limits else POLICIES
        figures = {name: run(tasks, preset.build(), policy(preset.build()))[0] for name, policy in policies.items()}
        bound = lower_bound(tasks, preset.build()) - min(task.at for task in tasks)
        found.append(Large(seed, bound, figures))
    return found


def _small_rows(gaps: dict[str, Gap]) -> list[tuple[str, ...]]:
    return [
        (name, f"{gap.mean:.3f}", f"{gap.most_of_20:.3f}", f"{gap.worst:.3f}", f"{gap.exact:.0%}")
        for name, gap in gaps.items()
    ]


def _large_rows(found: list[Large]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name in found[0].figures:
        mine = [each.figures[name] for each in found]
        to_bound = statistics.fmean(each.figures[name].makespan / each.bound for each in found)
        to_best = [
            each.figures[name].makespan / min(other.makespan for other in each.figures.values()) for each in found
        ]
        rows.append(
            (
                name,
                f"{to_bound:.3f}",
                f"{statistics.fmean(to_best):.3f}",
                f"{max(to_best):.3f}",
                f"{statistics.fmean(each.utilisation for each in mine):.3f}",
                f"{statistics.fmean(each.mean_wait for each in mine):.0f}",
                f"{max(each.max_wait for each in mine)}",
                f"{statistics.fmean(each.slowdown for each in mine):.1f}",
                f"{max(each.passed for each in mine)}",
                f"{max(each.passed_in_all for each in mine)}",
                f"{max(each.passed_before for each in mine)}" if name.startswith(GRASS) else "-",
                f"{max(each.kept for each in mine):.2f}" if name.startswith(GRASS) else "-",
            )
        )
    return rows


SMALL_HEAD = ("POLICY", "TO OPTIMUM mean", "95th", "worst", "SHORTEST in")


def _limited_rows(found: list[Large]) -> list[tuple[str, ...]]:
    """Every policy by first fit and by Grass without backfill, on the same traces."""
    rows: list[tuple[str, ...]] = []
    for name in found[0].figures:
        cells = [name]
        for base in ("first fit", "grass, no backfill"):
            pairs = [(each.figures[name], each.figures[base]) for each in found]
            for column in ("makespan", "mean_wait", "slowdown"):
                cells.append(f"{statistics.fmean(getattr(a, column) / getattr(b, column) for a, b in pairs):.3f}")
        mine = [each.figures[name] for each in found]
        cells += [f"{max(each.max_wait for each in mine)}", f"{max(each.passed for each in mine)}"]
        rows.append((*cells, f"{statistics.fmean(each.utilisation for each in mine):.3f}"))
    return rows


LIMITED_HEAD = (
    *("POLICY", "BY FIRST FIT makespan", "wait", "slowdown", "BY NO BACKFILL makespan", "wait", "slowdown"),
    *("WAIT s max", "PASSED most", "GPU USE"),
)
LARGE_HEAD = (
    *("POLICY", "TO BOUND", "TO BEST", "worst", "GPU USE", "WAIT s mean", "max", "SLOWDOWN"),
    *("PASSED most", "in all", "before kept", "KEPT / longest run"),
)


def _print(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    print(title)
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()


NOTES = """
TO OPTIMUM, TO BOUND, TO BEST: makespan as a ratio to the shortest schedule, to a time no schedule beats (work by
capacity, longest way to an end), and to the best policy on the same trace. The optimum and "longest first" know run
times; nobody else does. The small cases leave priorities out. GPU USE is what was held of the device-seconds until the
last end; SLOWDOWN is (wait + run) / run, a run counting as at least 10 s. PASSED: later jobs of equal or lower priority
that started while one job was first in line: without a break, in all, and until room was kept for it; KEPT: the longest
it waited from then on. Checked at every step: no device is overfilled; of Grass, that no job of lower priority takes
what the first in line lacks, and after 64 passes or ten minutes no later job does, unless the first in line starts no
later for it by the time limits. The last tables are the same traces with limits, of which only Grass makes use: the
ratios are means over the traces, by first fit and by Grass without backfill on the same trace.
"""


def main(argv: list[str]) -> None:
    """Measure how well jobs are packed, on a virtual clock; stops with an error if a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m bench packing", description=main.__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--quick", action="store_true", help="few and short traces: to see that it works")
    parser.add_argument("--seeds", type=int, help=f"traces of each kind ({SEEDS})")
    parser.add_argument("--jobs", type=int, help=f"jobs of a trace ({JOBS})")
    parser.add_argument("--cases", type=int, help=f"small cases of each kind ({CASES})")
    chosen = parser.parse_args(argv)
    seeds = chosen.seeds or (QUICK_SEEDS if chosen.quick else SEEDS)
    jobs = chosen.jobs or (QUICK_JOBS if chosen.quick else JOBS)
    cases = chosen.cases or (QUICK_CASES if chosen.quick else CASES)
    gaps, traces, limited = {}, {}, {}
    for family in FAMILIES:
        gaps[family.name] = small(family, cases)
        _print(f"{family.name}: {cases} cases of 4 to 7 jobs", SMALL_HEAD, _small_rows(gaps[family.name]))
    for preset in PRESETS:
        traces[preset.name] = large(preset, jobs, seeds)
        _print(f"{preset.name}: {seeds} traces of {jobs} jobs", LARGE_HEAD, _large_rows(traces[preset.name]))
        limited[preset.name] = large(preset, jobs, seeds, limits=True)
        title = f"{preset.name}: {seeds} traces of {jobs} jobs, 9 of 10 with a time limit"
        _print(title, LIMITED_HEAD, _limited_rows(limited[preset.name]))
    print(NOTES.strip())
    if chosen.json:
        document = {"machine": machine(), "cases": cases, "jobs": jobs, **_document(gaps, traces, limited)}
        Path(chosen.json).write_text(json.dumps(document, indent=2) + "\n")


def _document(
    gaps: dict[str, dict[str, Gap]], traces: dict[str, list[Large]], limited: dict[str, list[Large]]
) -> dict[str, object]:
    return {
        "small": {family: {name: gap._asdict() for name, gap in policies.items()} for family, policies in gaps.items()},
        "large": _traces_document(traces),
        "limited": _traces_document(limited),
    }


def _traces_document(traces: dict[str, list[Large]]) -> dict[str, object]:
    return {
        preset: [
            {
                "seed": each.seed,
                "bound": each.bound,
                "policies": {name: figures._asdict() for name, figures in each.figures.items()},
            }
            for each in found
        ]
        for preset, found in traces.items()
    }
