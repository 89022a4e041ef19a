"""One schedule of a fault run: the jobs of a machine, and what happens to its line and its processes, from a seed."""

from __future__ import annotations

from random import Random
from typing import Literal, NamedTuple

from tests.machines.ledger import JobPlan, plan

#: The seconds in which faults come; then everything is healed.
WINDOW_S = 2.0
JOBS_MAX = 4
FAULTS_MAX = 3
#: The bytes after which a line fails at most: those of a login, and of the start of some jobs.
BYTES_MAX = 60_000

#: The faults of a line, of processes there, and of processes here.
Kind = Literal["cut", "stall", "swallow", "slow", "kill sessions", "kill far", "freeze", "kill master", "kill daemon"]
KINDS: tuple[Kind, ...] = (
    "cut", "cut", "cut", "stall", "stall", "swallow", "slow", "kill sessions", "kill far", "freeze", "kill master",
)  # fmt: skip
#: Of so many schedules one also kills the daemon: that is a fault for all that run beside it.
DAEMON_EVERY = 20


class Fault(NamedTuple):
    """Something bad, and how long it lasts."""

    at_s: float
    kind: Kind
    #: The bytes that still pass; 0 means: at once.
    at_byte: int = 0
    there: bool = True
    back: bool = True
    lasts_s: float = 0.0
    bytes_s: float = 0.0


class Schedule(NamedTuple):
    """The jobs and faults of one seed."""

    seed: int
    jobs: tuple[JobPlan, ...]
    faults: tuple[Fault, ...]


def schedule(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    random = Random(seed)
    jobs = tuple(plan(random, f"s{seed}-{n}", WINDOW_S) for n in range(random.randint(1, JOBS_MAX)))
    faults = [_fault(random) for _ in range(random.randint(1, FAULTS_MAX))]
    if seed % DAEMON_EVERY == 0:
        faults.append(Fault(random.uniform(0, WINDOW_S), "kill daemon"))
    return Schedule(seed, jobs, tuple(sorted(faults)))


def _fault(random: Random) -> Fault:
    kind = random.choice(KINDS)
    there, back = random.choice(((True, True), (True, False), (False, True)))
    return Fault(
        # Many at the very beginning, where copies and starts are.
        random.choice((0.0, random.uniform(0, 0.3), random.uniform(0, WINDOW_S))),
        kind,
        random.choice((0, random.randint(1, 500), random.randint(1, 5_000), random.randint(1, BYTES_MAX))),
        there,
        back,
        random.uniform(0, WINDOW_S),
        random.choice((500.0, 5_000.0, 50_000.0)),
    )
