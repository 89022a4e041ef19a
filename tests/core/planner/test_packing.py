"""How well jobs are packed, on a virtual clock: never better than possible, not much worse, nobody for ever."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import permutations

import pytest
from bench.packing.clock import Unfair, run
from bench.packing.machines import Overfilled
from bench.packing.optimum import optimum
from bench.packing.policies import POLICIES, Grass, InOrder, Start, longest_first
from bench.packing.traces import FAMILIES, PRESETS, Family, Preset, Task, a_machine, small_case, trace, with_limits
from tests.builders import Amount, a_request

from grassq.core.job_options import NEUTRAL_PRIORITY
from grassq.core.planner.heads import ReservationPolicy
from grassq.core.resources.amounts import ONE

SEEDS = 20
#: Grass knows no run times and the optimum does, so a long job that happens to be last may double the time.
WORST_GAP = 2.0
MEAN_GAP = 1.2
MIDDLE = 250
ENDLESS = ReservationPolicy(10**9, math.inf)


def tasks_of(*jobs: tuple[int, dict[str, Amount]]) -> list[Task]:
    """Jobs that are all there at once, each with its run time and request."""
    return [Task(i, 0, seconds, a_request(**asked)) for i, (seconds, asked) in enumerate(jobs, 1)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_few_jobs_take_no_less_than_the_optimum_and_not_much_more(family: Family) -> None:
    ratios = []
    for seed in range(SEEDS):
        tasks, machines = small_case(family, seed)
        known = run(tasks, [each.empty() for each in machines], InOrder(key=longest_first))[0].makespan
        best = optimum(tasks, machines, known)
        # `run` stops with an error as soon as a device is overfilled.
        mine = run(tasks, [each.empty() for each in machines], Grass(machines))[0].makespan
        assert mine >= best, f"seed {seed}: shorter than the shortest schedule"
        ratios.append(mine / best)
    assert max(ratios) <= WORST_GAP
    assert sum(ratios) / len(ratios) <= MEAN_GAP


@pytest.mark.parametrize(
    "patience", [ReservationPolicy(), ReservationPolicy(64, math.inf)], ids=["default", "passes only"]
)
@pytest.mark.parametrize("preset", PRESETS[1:3], ids=lambda preset: preset.name)
def test_who_is_first_in_line_is_passed_so_often_and_no_more(preset: Preset, patience: ReservationPolicy) -> None:
    """`run` looks at every start: once patience is over, what the first in line lacks only shrinks."""
    tasks = trace(preset, MIDDLE, seed=1)
    figures, story = run(tasks, preset.build(), Grass(preset.build(), patience))
    assert {start.task.id for _, start in story} == {task.id for task in tasks}
    # A job may come to be first in line anew after one of higher priority, with all its patience.
    assert figures.passed_before < 64 + max(len([1 for at, _ in story if at == now]) for now, _ in story)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_without_reservations_equals_start_by_first_fit_in_queue_order(preset: Preset) -> None:
    tasks = [task._replace(priority=NEUTRAL_PRIORITY) for task in trace(preset, MIDDLE, seed=2)]
    _, ours = run(tasks, preset.build(), Grass(preset.build(), ENDLESS))
    _, plain = run(tasks, preset.build(), InOrder(thrifty=True))
    assert ours == plain


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_runs_every_job_and_overfills_nothing(name: str) -> None:
    preset = PRESETS[-1]
    tasks = trace(preset, MIDDLE, seed=3)
    figures, story = run(tasks, preset.build(), POLICIES[name](preset.build()))
    assert len(story) == MIDDLE and 0 < figures.utilisation <= 1 <= figures.slowdown


def test_a_planner_that_keeps_no_room_is_found_out() -> None:
    class Forgetful(Grass):
        patience = ReservationPolicy()

    preset = PRESETS[0]
    with pytest.raises(Unfair, match="have taken from what is kept"):
        run(trace(preset, MIDDLE, seed=1), preset.build(), Forgetful(preset.build(), ENDLESS))


def test_with_time_limits_jobs_pass_and_the_first_in_line_starts_no_later_by_the_limits() -> None:
    """`run` looks at every start: by the limits of the jobs that run, the first in line never starts later."""
    preset = PRESETS[0]
    tasks = with_limits(trace(preset, MIDDLE // 2, seed=1), 1)
    grass = Grass(preset.build())
    figures, _ = run(tasks, preset.build(), grass)
    before, _ = run(tasks, preset.build(), Grass(preset.build(), ReservationPolicy(backfills=False)))
    assert grass.backfilled > 0 and figures.mean_wait < before.mean_wait


def test_a_planner_that_overfills_a_device_is_found_out() -> None:
    class Careless(InOrder):
        def decide(self, now: int, waiting: list[Task], machines: object) -> list[Start]:
            return [Start(task, "m", {"gpu": {"0": dict(task.request)["gpu"]}}) for task in waiting]

    with pytest.raises(Overfilled, match="card 0 has no room"):
        run(tasks_of((9, {"gpu": 0.75}), (9, {"gpu": 0.5})), [a_machine("m", {"gpu": 1})], Careless())


def in_turn(tasks: Iterable[Task]) -> int:
    """The makespan on one device when each job, in this order, is put where it fits soonest."""
    put: list[tuple[int, int, int]] = []
    for task in tasks:
        amount = dict(task.request)["gpu"]
        for begin in sorted({0, *(end for _, end, _ in put)}):
            beside = [each for each in put if each[0] < begin + task.run and begin < each[1]]
            # What is held only grows when a job begins, so these are the fullest moments.
            moments = {begin, *(each[0] for each in beside if each[0] > begin)}
            held = max(sum(part for since, end, part in beside if since <= at < end) for at in moments)
            if held + amount <= ONE:
                put.append((begin, begin + task.run, amount))
                break
    return max(end for _, end, _ in put)


def test_the_optimum_is_the_best_of_all_orders_in_which_jobs_can_be_put_on_one_device() -> None:
    for seed in range(SEEDS):
        tasks, machines = small_case(FAMILIES[0], seed)
        few = tasks[:5]
        expected = min(in_turn(order) for order in permutations(few))
        assert optimum(few, machines, sum(task.run for task in few)) == expected


def test_the_optimum_spares_the_card_with_much_memory() -> None:
    tasks = tasks_of((10, {"gpu": 1}), (10, {"gpu": 1, "vram": 16}))
    machines = [a_machine("m", {"gpu": {"0": {"vram": 24}, "1": {"vram": 8}}})]
    assert optimum(tasks, machines, 20) == 10
