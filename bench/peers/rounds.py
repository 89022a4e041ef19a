"""Every contestant in turn, round by round."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.homes import own_folder
from bench.limit import Programs
from bench.peers.base import IDLE_S, Contestant, Trouble
from grassq.errors import GrassError

#: In each round, but never more than there are jobs: few are for a look at whether it works.
LATENCIES = 20
GAP_JOBS = 200
#: Discarded: caches and the processes that a queue keeps for its next jobs.
WARM_JOBS = 20
WARM_LATENCIES = 3
#: What may go wrong with a contestant without ending the others.
TROUBLES = (Trouble, GrassError, OSError, subprocess.SubprocessError, TimeoutError)


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    jobs: int
    rounds: int
    #: Only how many jobs a second.
    rate_only: bool = False


@dataclass
class Figures:
    """What one contestant did in all rounds."""

    name: str
    how: str
    #: Jobs in a second, one for each round.
    rates: list[float] = field(default_factory=list)
    #: Milliseconds, of all rounds together.
    submits: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    #: Why there is nothing, or no more.
    trouble: str | None = None


def measure(contestants: Sequence[Contestant], plan: Plan, programs: Programs) -> list[Figures]:
    """Only one of them runs at a time: what idle ones do in the background would be the others' loss."""
    found = {each: Figures(each.name, each.how, trouble=each.available()) for each in contestants}
    for turn in range(plan.rounds):
        # There and back: who comes first after somebody heavy is not always the same.
        for each in contestants if turn % 2 == 0 else contestants[::-1]:
            if found[each].trouble is None:
                _tell(f"round {turn + 1} of {plan.rounds}: {each.name}")
                _take(each, plan, programs, found[each])
    return list(found.values())


def _take(contestant: Contestant, plan: Plan, programs: Programs, figures: Figures) -> None:
    with own_folder() as folder:
        try:
            _turn(contestant, plan, programs, figures, folder)
        except TROUBLES as error:
            figures.trouble = " ".join(str(error).split()) or type(error).__name__


def _turn(contestant: Contestant, plan: Plan, programs: Programs, figures: Figures, folder: Path) -> None:
    try:
        contestant.start(folder, programs)
        if not plan.rate_only:
            _latencies(contestant, figures, min(LATENCIES, plan.jobs))
        if contestant.starts_programs:
            contestant.throughput(WARM_JOBS)
            if not plan.rate_only:
                figures.gaps += contestant.gaps(min(GAP_JOBS, plan.jobs))
            count = min(plan.jobs, contestant.most or plan.jobs)
            figures.rates.append(count / contestant.throughput(count))
    finally:
        contestant.stop()


def _latencies(contestant: Contestant, figures: Figures, rounds: int) -> None:
    for turn in range(WARM_LATENCIES + rounds):
        time.sleep(IDLE_S)
        taken = contestant.latency()
        if turn >= WARM_LATENCIES:
            figures.starts.append(taken.start)
            if taken.submit is not None:
                figures.submits.append(taken.submit)


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
