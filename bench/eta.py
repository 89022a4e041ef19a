"""How often the intervals of `grass eta` hold: traces made from a seed, played by the real planner on a virtual clock.

Jobs come while others run, some in sweeps, some alone; run times are log-normal around the middle of their sweep, a few
are far longer, some jobs fail early. Now and then, as the daemon does, a forecast is made of the board as it is, and
what it says of some jobs is judged when these jobs start and end. The forecast knows only what ended before.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from bench.table import machine
from grassq.core.forecast.forecast import SHARE, Forecast, Interval, forecast
from grassq.core.forecast.history import RunHistory
from grassq.core.forecast.scene import first_queued, picture
from grassq.core.forecast.stretch import Stretch
from grassq.core.model import Job, Offer, Outcome, Spec, State, WorkerInfo
from grassq.core.planner.board import Board
from grassq.core.planner.plan import plan
from grassq.core.planner.request_classes import shape_of
from grassq.core.resources.amounts import Request, parse_request
from grassq.core.resources.capacity import parse_limits, supply_of
from grassq.core.states import Exited, Place, Started, advance

WALL = 1_700_000_000.0
#: Seeds from here on were never looked at while the method was tuned.
FRESH_SEED = 1000
SEEDS, QUICK_SEEDS = 3, 1
JOBS, QUICK_JOBS = 200, 100
PLAYS = 12
#: Looks over the time of a trace, and new predictions of each kind in one look.
LOOKS = 16
NEW_MAX = 6

ASKED: list[tuple[int, dict[str, float]]] = [
    (4, {"gpu": 0.25}),
    (6, {"gpu": 0.5}),
    (10, {"gpu": 1}),
    (3, {"gpu": 2}),
    (1, {"gpu": 4}),
    (2, {"gpu": 1, "cpu": 8}),
    (2, {"cpu": 4}),
]


class Preset(NamedTuple):
    """A machine and how it is used."""

    name: str
    gpus: int
    median_s: float
    #: Work that comes in the time the machine needs for one.
    load: float
    #: The share of jobs in sweeps, and how many jobs a sweep has on average.
    sweeps: float
    sweep_jobs: int
    #: How much run times differ within a sweep (the standard deviation of their logs), and between sweeps of a program.
    spread: float
    between: float = 0.4
    fails: float = 0.05
    tail: float = 0.03
    priorities: bool = True


PRESETS = [
    Preset("desktop, steady sweeps", 4, 600.0, 1.1, 0.8, 20, 0.2),
    Preset("desktop, mixed", 4, 600.0, 1.2, 0.5, 12, 0.5),
    Preset("server, heavy tails", 8, 900.0, 1.1, 0.6, 15, 0.7, tail=0.08),
    Preset("desktop, many failures", 2, 300.0, 1.0, 0.7, 15, 0.4, fails=0.25),
]


class Arrival(NamedTuple):
    """A job of a trace."""

    at: float
    job: Job
    lasts: float
    failed: bool


def trace(preset: Preset, count: int, seed: int) -> list[Arrival]:
    """Return jobs in the order of their arrival."""
    random = Random(f"{preset.name} {count} {seed}")
    programs = [(f"train{n}.py", preset.median_s * random.lognormvariate(0, 0.7)) for n in range(6)]
    groups: list[list[tuple[str, str | None, Request, int, float, bool]]] = []
    made = work = 0.0
    while made < count:
        program, median = random.choice(programs)
        jobs, name = 1, None
        if random.random() < preset.sweeps / (preset.sweeps + (1 - preset.sweeps) * preset.sweep_jobs):
            jobs, name = 1 + int(random.expovariate(1 / preset.sweep_jobs)), f"sweep-{len(groups)}"
        jobs = min(jobs, count - int(made))
        asked = random.choices([each for _, each in ASKED], [weight for weight, _ in ASKED])[0]
        if asked.get("gpu", 0) > preset.gpus:
            asked = {"gpu": 1}
        median *= random.lognormvariate(0, preset.between)
        priority = random.choices((30, 20, 40), (85, 10, 5))[0] if preset.priorities else 30
        group = []
        for _ in range(jobs):
            seconds = median * random.lognormvariate(0, preset.spread)
            if random.random() < preset.tail:
                seconds *= random.paretovariate(1.2)
            failed = random.random() < preset.fails
            seconds = min(seconds, 40 * median) * (random.uniform(0.01, 0.6) if failed else 1.0)
            work += seconds * asked.get("gpu", 0.2)
            group.append((program, name, parse_request(asked), priority, max(1.0, seconds), failed))
        groups.append(group)
        made += jobs
    span = work / preset.gpus / preset.load
    times = sorted(random.uniform(0.0, span) for _ in groups)
    found: list[Arrival] = []
    for at, group in zip(times, groups, strict=True):
        for program, name, request, priority, seconds, failed in group:
            command = (b"python", program.encode(), b"--seed", str(len(found)).encode())
            spec = Spec(command, "default", request, b"/", b"")
            job = Job(id=len(found) + 1, spec=spec, state=State.QUEUED, created=WALL + at, priority=priority, name=name)
            found.append(Arrival(at, job, seconds, failed))
    return found


class Counts:
    """How many intervals of one kind held."""

    def __init__(self) -> None:
        self.held = self.early = self.late = 0
        self.widths: list[float] = []

    def note(self, said: Interval, made: float, actual: float) -> None:
        """Count an interval and what came."""
        self.held += said.low <= actual <= said.high
        self.early += actual < said.low
        self.late += actual > said.high
        self.widths.append((said.high - said.low) / max(1.0, actual - made))

    @property
    def count(self) -> int:
        """How many were judged."""
        return self.held + self.early + self.late


class Run:
    """One trace: the board, the clock, and the predictions that wait for their time."""

    def __init__(self, preset: Preset, arrivals: Sequence[Arrival], *, learns: bool, looks: int) -> None:
        capacity = {name: supply_of(limit) for name, limit in parse_limits({"gpu": preset.gpus, "cpu": 64}).items()}
        self.board = Board()
        self.board.set_worker(WorkerInfo("desk", "boot", capacity, (Offer("default"),)), online=True, now=0.0)
        self.arrivals = {each.job.id: each for each in arrivals}
        self.history, self.stretch, self.learns = RunHistory(), Stretch(), learns
        self.said: dict[tuple[int, str], tuple[float, Interval]] = {}
        self.judged: dict[tuple[int, str], tuple[float, Interval]] = {}
        self.counts = {"start": Counts(), "end": Counts()}
        self.took: list[float] = []
        self.wakes: set[float] = set()
        self.coming: list[tuple[float, int, int]] = [(each.at, 0, each.job.id) for each in arrivals]
        # Jobs are looked at while they come and for a while after.
        span = 1.3 * max(each.at for each in arrivals)
        self.coming += [(span * (n + 0.5) / looks, 2, 0) for n in range(looks)]
        self.coming.sort()
        self.random = Random(len(arrivals))

    def play(self) -> None:
        """Play the trace to its end."""
        while self.coming:
            now, kind, id_ = heappop(self.coming)
            if kind == 0:
                self.board.put(self.arrivals[id_].job)
            elif kind == 1:
                self._end(id_, now)
            elif kind == 2:
                self._look(now)
                continue
            self._place(now)

    def _place(self, now: float) -> None:
        while True:
            made = plan(self.board, now)
            for job_id, where in made.placements:
                placed = advance(self.board.jobs[job_id], Place(where), WALL + now)
                self.board.put(placed)
                self.board.put(advance(placed, Started(placed.attempt, 1), WALL + now))
                heappush(self.coming, (now + self.arrivals[job_id].lasts, 1, job_id))
                self._judge(job_id, "start", now)
            self.board.heads, self.board.kept = made.heads, made.kept
            if not made.placements:
                break
        ripe = [head.since + self.board.patience.wait_s for head in self.board.heads.values()]
        for at in {at for at in ripe if at > now} - self.wakes:
            self.wakes.add(at)
            heappush(self.coming, (at, 3, 0))

    def _end(self, id_: int, now: float) -> None:
        job = self.board.jobs[id_]
        code = int(self.arrivals[id_].failed)
        ended = advance(job, Exited(job.attempt, Outcome.EXITED, code=code), WALL + now)
        self.board.put(ended)
        self.history.add(replace(ended, finished=WALL + now))
        self._judge(id_, "end", now)

    def _look(self, now: float) -> None:
        queued = [self.board.jobs[id_] for id_ in first_queued(self.board)]
        if not self.board.holding:
            return
        began = time.perf_counter()
        scene = picture(self.board, now, WALL + now, queued)
        made = forecast(scene, self.history, lambda plays: plays >= PLAYS, stretch=self.stretch)
        self.took.append(time.perf_counter() - began)
        running = [job for job in self.board.holding.values() if self._is_new(job.id, "end")]
        waiting = [job for job in queued if self._is_new(job.id, "start")]
        for job in self.random.sample(running, min(len(running), NEW_MAX)):
            self._say(made, job, "end", now)
        for job in self.random.sample(waiting, min(len(waiting), NEW_MAX)):
            self._say(made, job, "start", now)

    def _is_new(self, id_: int, kind: str) -> bool:
        return (id_, kind) not in self.said and (id_, kind) not in self.judged

    def _say(self, made: Forecast, job: Job, kind: str, now: float) -> None:
        place = self.board.line(shape_of(job)).before(job.order) if kind == "start" else 0
        found = made.of(job, place)
        interval = found.starts if kind == "start" else found.ends
        if interval is not None:
            self.said[job.id, kind] = now, interval

    def _judge(self, id_: int, kind: str, now: float) -> None:
        if (found := self.said.pop((id_, kind), None)) is None:
            return
        made, said = self.judged[id_, kind] = found
        self.counts[kind].note(said, WALL + made, WALL + now)
        if self.learns:
            self.stretch.learn(kind, [(said.low, said.high, WALL + now)])


def measure(preset: Preset, seeds: Sequence[int], jobs: int, *, learns: bool) -> dict[str, object]:
    """Return the shares that held over some seeds."""
    runs = [Run(preset, trace(preset, jobs, seed), learns=learns, looks=LOOKS * jobs // JOBS) for seed in seeds]
    for run in runs:
        run.play()
    row: dict[str, object] = {"name": preset.name}
    for kind in ("start", "end"):
        each = [run.counts[kind] for run in runs]
        count = sum(counts.count for counts in each)
        widths = sorted(width for counts in each for width in counts.widths)
        row[kind] = {
            "count": count,
            "held": sum(counts.held for counts in each) / max(1, count),
            "early": sum(counts.early for counts in each) / max(1, count),
            "late": sum(counts.late for counts in each) / max(1, count),
            "width": widths[len(widths) // 2] if widths else 0.0,
        }
    took = sorted(seconds for run in runs for seconds in run.took)
    row["forecast_ms"] = 1000 * took[len(took) // 2] if took else 0.0
    return row


def main(argv: Sequence[str] = ()) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench eta", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"traces of each kind (default: {SEEDS})")
    parser.add_argument("--first-seed", type=int, default=FRESH_SEED, help=f"(default: {FRESH_SEED})")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"jobs of a trace (default: {JOBS})")
    parser.add_argument("--unlearned", action="store_true", help="do not learn from intervals that were judged")
    parser.add_argument("--quick", action="store_true", help="one short trace of each kind: to see that it works")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(list(argv))
    count, jobs = (QUICK_SEEDS, QUICK_JOBS) if arguments.quick else (arguments.seeds, arguments.jobs)
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    rows = [measure(preset, seeds, jobs, learns=not arguments.unlearned) for preset in PRESETS]
    print(f"intervals meant to hold {SHARE:.0%}; {count} traces of {jobs} jobs each; {PLAYS} plays a forecast")
    print(f"{'trace':<26}{'':<7}{'count':>6}{'held':>7}{'earlier':>9}{'later':>7}{'width':>7}")
    for row in rows:
        for kind in ("start", "end"):
            found = row[kind]
            assert isinstance(found, dict)
            shares = f"{found['held']:>7.0%}{found['early']:>9.0%}{found['late']:>7.0%}{found['width']:>7.2f}"
            print(f"{row['name'] if kind == 'start' else '':<26}{kind + 's':<7}{found['count']:>6}{shares}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")
    return 0
