"""Traces like those recorded on people's machines, made from a seed: who asks for what, when, and for how long."""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from bench.packing.machines import GPU, Machine
from grassq.core.job_options import NEUTRAL_PRIORITY
from grassq.core.resources.amounts import ONE, Request, parse_request
from grassq.core.resources.capacity import parse_limits, supply_of
from grassq.core.syntax.resource_names import VRAM

Asked = dict[str, float | str]

#: What people ask for, and how often: parts of a device, whole ones, several, device memory, cpu and mem beside it.
ASKED: list[tuple[int, Asked]] = [
    (8, {"gpu": 0.1}),
    (14, {"gpu": 0.25}),
    (14, {"gpu": 0.5}),
    (22, {"gpu": 1}),
    (8, {"gpu": 2}),
    (3, {"gpu": 4}),
    (1, {"gpu": 8}),
    (1, {"gpu": 2.5}),
    (8, {"gpu": 0.5, "vram": "10G"}),
    (6, {"gpu": 1, "vram": "20G"}),
    (4, {"gpu": 1, "vram": "40G"}),
    (4, {"vram": "6G"}),
    (8, {"gpu": 1, "cpu": 8, "mem": "32G"}),
    (4, {"cpu": 4}),
    (2, {"cpu": 16, "mem": "48G"}),
]
PRIORITIES = (NEUTRAL_PRIORITY, NEUTRAL_PRIORITY - 10, NEUTRAL_PRIORITY + 10)
PRIORITY_WEIGHTS = (85, 10, 5)
#: Every so many arrivals is a burst (a sweep): so many jobs alike on average.
BURSTS = 0.2
BURST_JOBS = 12
#: Run times: log-normal, of which a few are far longer.
SIGMA = 1.0
TAIL = 0.03
TAIL_SHAPE = 1.2
LONGEST = 40
#: The share of jobs that name a limit: the run time and a log-normal margin of it, or the next round number.
LIMITED = 0.9
MARGIN_SIGMA = 0.7
ROUND_LIMITS = [60 * n for n in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2880)]


class Task(NamedTuple):
    """A job of a trace, in whole seconds."""

    id: int
    at: int
    run: int
    request: Request
    priority: int = NEUTRAL_PRIORITY
    #: The time limit that the job names, and never reaches.
    limit: int | None = None

    @property
    def order(self) -> tuple[int, int]:
        """The place in line: larger priority first, then submission."""
        return (-self.priority, self.id)


class Preset(NamedTuple):
    """A set of machines and how they are used."""

    name: str
    machines: dict[str, dict[str, object]]
    #: The middle run time, in seconds.
    median: int
    #: Work that comes in the time the machines need for one: above 1 the line grows while jobs come.
    load: float
    burst_jobs: int = BURST_JOBS

    def build(self) -> list[Machine]:
        """The machines, empty, by name."""
        return [a_machine(name, given) for name, given in sorted(self.machines.items())]


def _cards(*sizes: str) -> dict[str, dict[str, str]]:
    return {str(i): {"vram": size} for i, size in enumerate(sizes)}


DESKTOP: dict[str, dict[str, object]] = {"desk": {"gpu": _cards(*4 * ["24G"]), "cpu": 32, "mem": "128G"}}
PRESETS = [
    Preset("desktop, 4 gpus", DESKTOP, 600, 1.2),
    Preset("desktop, short sweeps", DESKTOP, 12, 1.5, 60),
    Preset(
        "box, 8 gpus, mixed vram",
        {"box": {"gpu": _cards(*4 * ["80G"], *4 * ["24G"]), "cpu": 64, "mem": "512G"}},
        900,
        1.2,
    ),
    Preset(
        "three machines",
        {
            "a": {"gpu": _cards(*2 * ["24G"]), "cpu": 16, "mem": "64G"},
            "b": {"gpu": _cards(*4 * ["48G"]), "cpu": 32, "mem": "256G"},
            "c": {"gpu": _cards(*8 * ["80G"]), "cpu": 128, "mem": "1T"},
        },
        900,
        1.2,
    ),
]


def a_machine(name: str, given: dict[str, object]) -> Machine:
    """A machine from the user's spelling of what it has."""
    return Machine(name, {name: supply_of(limit) for name, limit in parse_limits(given).items()})


def trace(preset: Preset, count: int, seed: int) -> list[Task]:
    """So many jobs for these machines, in the order of their arrival."""
    random = Random(f"{preset.name} {count} {seed}")
    machines = preset.build()
    asked = [(weight, request) for weight, request in _requests() if _runs_somewhere(request, machines)]
    bodies: list[list[tuple[Request, int, int]]] = []
    while (missing := count - sum(map(len, bodies))) > 0:
        jobs = 1
        if random.random() < BURSTS:
            jobs = min(missing, 1 + int(random.expovariate(1 / preset.burst_jobs)))
        (request,) = random.choices([request for _, request in asked], [weight for weight, _ in asked])
        (priority,) = random.choices(PRIORITIES, PRIORITY_WEIGHTS)
        median = preset.median * random.lognormvariate(0, SIGMA / 2)
        bodies.append([(request, _run_time(random, median, preset.median), priority) for _ in range(jobs)])
    timeless = [Task(0, 0, run, request) for group in bodies for request, run, _ in group]
    span = lower_bound(timeless, machines) / preset.load
    times = sorted(int(random.uniform(0, span)) for _ in bodies)
    each = [(at, *job) for at, group in zip(times, bodies, strict=True) for job in group]
    return [Task(i, at, run, request, priority) for i, (at, request, run, priority) in enumerate(each, 1)]


def with_limits(tasks: list[Task], seed: int) -> list[Task]:
    """The same jobs, most of them with a time limit: a round number that is often far above the run time."""
    random = Random(f"limits {seed}")
    found = []
    for task in tasks:
        margin = 1 + random.lognormvariate(0, MARGIN_SIGMA)
        limit = next((each for each in ROUND_LIMITS if each >= task.run * margin), task.run * 2)
        found.append(task._replace(limit=limit if random.random() < LIMITED else None))
    return found


def _run_time(random: Random, median: float, usual: int) -> int:
    seconds = median * random.lognormvariate(0, SIGMA / 2)
    if random.random() < TAIL:
        seconds *= random.paretovariate(TAIL_SHAPE)
    return max(1, int(min(seconds, LONGEST * usual)))


def _requests() -> list[tuple[int, Request]]:
    return [(weight, parse_request(asked)) for weight, asked in ASKED]


def _runs_somewhere(request: Request, machines: list[Machine]) -> bool:
    return any(machine.empty().pick(request) is not None for machine in machines)


def lower_bound(tasks: list[Task], machines: list[Machine]) -> int:
    """A time no schedule beats: the longest way to an end, or the work that comes after some time, by capacity."""
    have: dict[str, int] = {}
    for machine in machines:
        for name, amount in machine.pools.items():
            have[name] = have.get(name, 0) + amount
        have[GPU] = have.get(GPU, 0) + ONE * len(machine.cards)
        have[VRAM] = have.get(VRAM, 0) + sum(card.memory for card in machine.cards)
    bound = max(task.at + task.run for task in tasks)
    work = dict.fromkeys(have, 0)
    for task in sorted(tasks, key=lambda task: task.at, reverse=True):
        for name, amount in task.request:
            cards = max(1, math.ceil(dict(task.request).get(GPU, 0) / ONE)) if name == VRAM else 1
            work[name] += amount * cards * task.run
            bound = max(bound, task.at + math.ceil(work[name] / have[name]))
    return bound


class Family(NamedTuple):
    """Small cases of one kind: what there is and what may be asked for."""

    name: str
    given: dict[str, object]
    asked: tuple[Asked, ...]


PARTS: tuple[Asked, ...] = ({"gpu": 0.1}, {"gpu": 0.25}, {"gpu": 0.5}, {"gpu": 0.75}, {"gpu": 1})
FAMILIES = [
    Family("1 gpu, parts", {"gpu": 1}, PARTS),
    Family("2 gpus, parts and wholes", {"gpu": 2}, (*PARTS, {"gpu": 1.5}, {"gpu": 2})),
    Family(
        "2 gpus of 24G and 8G, vram, cpu",
        {"gpu": _cards("24G", "8G"), "cpu": 8},
        (
            *PARTS,
            {"gpu": 1, "vram": "16G"},
            {"gpu": 0.5, "vram": "8G"},
            {"vram": "6G"},
            {"gpu": 0.5, "cpu": 4},
            {"gpu": 1, "cpu": 6},
            {"cpu": 4},
        ),
    ),
]
SMALL_JOBS = (4, 7)
#: Long enough that the patience of ten minutes is over in many cases and not in others.
SMALL_MEDIAN = 600


def small_case(family: Family, seed: int) -> tuple[list[Task], list[Machine]]:
    """A few jobs, all there from the beginning, and their one machine."""
    random = Random(f"{family.name} {seed}")
    requests = [parse_request(asked) for asked in family.asked]
    count = random.randint(*SMALL_JOBS)
    tasks = [
        Task(i, 0, _run_time(random, SMALL_MEDIAN, SMALL_MEDIAN), random.choice(requests)) for i in range(1, count + 1)
    ]
    return tasks, [a_machine("m", family.given)]
