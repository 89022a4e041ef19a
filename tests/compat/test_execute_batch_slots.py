"""How many jobs of a batch a machine gets: the numbers that ml-scheduler gave, and the rules behind them."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.compat.execute_batch.arguments import read_batch
from grassq.compat.execute_batch.slots import (
    SLOTS_MAX,
    FreeGpu,
    FreeResources,
    HeldSlot,
    Needs,
    beside,
    read_free,
    slots_of,
)
from grassq.errors import Unreachable

SEED_OVERLOAD = Fraction("1.6")


def gpu(number: int, used: float = 0.0, free_mib: int = 6000) -> FreeGpu:
    """A GPU of 6 GB."""
    return FreeGpu(number, Fraction(free_mib), Fraction(str(used)), Fraction(6000))


def machine(*gpus: FreeGpu, cores: float = 24, mem_mib: int = 30_000) -> FreeResources:
    """A machine with 24 cores and 30 GB, all of it free unless it is said otherwise."""
    return FreeResources(Fraction(str(cores)), Fraction(24), Fraction(mem_mib), Fraction(30_000), gpus)


#: The machine on which ml-scheduler's own slots were measured: two idle GPUs.
MEASURED = machine(gpu(0), gpu(1))


def typed(*words: str) -> Needs:
    """What a job needs by these options."""
    return read_batch(["batch.sh", "--machines", "m.yaml", *words]).needs


@pytest.mark.parametrize(
    ("words", "slots"),
    [
        ("", [0, 1]),
        ("--no-gpu-required", [None] * 4),
        ("--memory-required=10000 --gpu-memory-required=3000 --no-reserve-gpu", [0, 1]),
        ("--no-reserve-gpu --memory-required=100", [0, 1]),
        ("--no-reserve-gpu --memory-required=100 --gpu-utilization=0.5", [0, 1, 0, 1]),
        ("--num-cpus=8 --gpu-utilization=0.5", [0, 1]),
        ("--reserve", [0]),
        ("--no-reserve-gpu --memory-required=100 --gpu-overload 1.6", [0, 1, 0, 1]),
        ("--no-reserve-gpu --memory-required=100 --gpu-utilization=0.5 --gpu-overload 1.6", [0, 1, 0, 1, 0, 1]),
    ],
)
def test_slots_are_those_that_ml_scheduler_gave(words: str, slots: list[int | None]) -> None:
    assert list(slots_of(MEASURED, typed(*words.split())).gpus) == slots


def test_f86_half_of_the_memory_gives_half_of_the_slots() -> None:
    needs = typed("--no-gpu-required", "--memory-required=3000")
    whole, half = (slots_of(machine(mem_mib=mib), needs).gpus for mib in (24_000, 12_000))
    assert (len(whole), len(half)) == (8, 4)


def test_f88_two_jobs_of_half_a_gpu_share_it_and_a_third_does_not_fit() -> None:
    needs = typed("--no-reserve-gpu", "--gpu-utilization=0.5", "--memory-required=1")
    found = slots_of(machine(gpu(0)), needs)
    assert found.gpus == (0, 0)
    assert found.limit.startswith("GPU utilization")


def test_f89_a_gpu_is_reserved_unless_jobs_may_share_it() -> None:
    assert slots_of(MEASURED, typed("--gpu-utilization=0.1", "--memory-required=1")).gpus == (0, 1)
    shared = slots_of(MEASURED, typed("--gpu-utilization=0.1", "--memory-required=1", "--no-reserve-gpu")).gpus
    assert Counter(shared) == {0: 6, 1: 6}


def test_f90_a_machine_without_gpus_has_slots_only_for_jobs_that_need_none() -> None:
    found = slots_of(machine(), typed())
    assert not found.gpus
    assert found.limit.startswith("GPUs: the machine has none")
    assert slots_of(machine(), typed("--no-gpu-required")).gpus == (None,) * 4


def test_f92_eight_cores_of_a_machine_with_four_are_too_many_and_six_are_one_job() -> None:
    four = machine(gpu(0), gpu(1), cores=4)
    refused = slots_of(four, typed("--num-cpus=8"))
    assert not refused.gpus
    assert refused.limit == "cores: a job needs 8, and 4 are free (an overload of 2 is tolerated)"
    assert slots_of(four, typed("--num-cpus=6")).gpus == (0,)


def test_f93_a_reserved_machine_takes_one_job() -> None:
    found = slots_of(MEASURED, typed("--reserve", "--no-gpu-required"))
    assert found.gpus == (None,)
    assert found.limit.startswith("machine: it is reserved")


def test_f95_a_busy_gpu_gets_no_job() -> None:
    assert slots_of(machine(gpu(0, used=1.0), gpu(1)), typed()).gpus == (1,)
    assert slots_of(machine(gpu(0, free_mib=500), gpu(1)), typed()).gpus == (1,)


def test_the_least_used_gpu_gets_the_next_job() -> None:
    free = machine(gpu(0, used=0.5), gpu(1, used=0.1), gpu(2, used=0.3))
    needs = typed("--no-reserve-gpu", "--gpu-utilization=0.3", "--memory-required=1")
    assert slots_of(free, needs).gpus == (1, 2, 1, 0, 2, 1, 0, 2)


def test_shares_are_added_exactly() -> None:
    needs = typed("--no-reserve-gpu", "--gpu-utilization=0.4", "--memory-required=1")
    assert len(slots_of(machine(gpu(0)), needs).gpus) == 3


def test_a_job_that_needs_nothing_has_a_bounded_number_of_slots() -> None:
    needs = typed("--no-gpu-required", "--num-cpus=0", "--memory-required=0")
    assert len(slots_of(machine(), needs).gpus) == SLOTS_MAX


_AMOUNTS = st.integers(0, 40_000).map(Fraction)
_SHARES = st.integers(0, 150).map(lambda hundredths: Fraction(hundredths, 100))
_GPUS = st.lists(st.tuples(_AMOUNTS, _SHARES), max_size=4)
_NEEDS = st.builds(
    Needs,
    cpus=st.integers(0, 10).map(Fraction),
    memory_mib=st.integers(1, 20_000).map(Fraction),
    gpu_memory_mib=_AMOUNTS,
    gpu_utilisation=_SHARES,
    reserves_machine=st.booleans(),
    reserves_gpu=st.booleans(),
    needs_gpu=st.booleans(),
)


@given(st.integers(-2, 64).map(Fraction), _AMOUNTS, _GPUS, _NEEDS)
def test_f87_no_limit_is_passed_and_one_more_job_would_pass_one(
    cores: Fraction, mem: Fraction, gpus: list[tuple[Fraction, Fraction]], needs: Needs
) -> None:
    cards = tuple(FreeGpu(number, free, used, free) for number, (free, used) in enumerate(gpus))
    free = FreeResources(cores, cores, mem, mem, cards)
    found = slots_of(free, needs)
    count = len(found.gpus)
    assert count * needs.memory_mib <= mem
    assert not count or cores - count * needs.cpus >= -needs.cpu_overload
    assert not needs.reserves_machine or count <= 1
    for number, jobs in Counter(each for each in found.gpus if each is not None).items():
        assert jobs * needs.gpu_memory_mib <= cards[number].mem_free_mib
        assert cards[number].utilisation + jobs * needs.gpu_utilisation <= needs.gpu_overload
        assert not needs.reserves_gpu or jobs == 1
    assert needs.needs_gpu == (None not in found.gpus) or not count
    assert found.limit


def test_slots_of_other_batches_count_though_their_jobs_use_nothing_yet() -> None:
    held = [HeldSlot(Needs(), 0)]
    assert slots_of(beside(MEASURED, held), Needs()).gpus == (1,)
    shared = HeldSlot(Needs(reserves_gpu=False, memory_mib=Fraction(29_000)), 0)
    assert slots_of(beside(MEASURED, [shared]), Needs(memory_mib=Fraction(1000))).gpus == (1,)
    assert slots_of(beside(MEASURED, [shared]), Needs()).limit.startswith("memory")
    whole = HeldSlot(Needs(reserves_machine=True, needs_gpu=False), None)
    assert slots_of(beside(MEASURED, [whole]), Needs()).limit.startswith("machine")


def test_what_other_batches_use_already_is_not_counted_twice() -> None:
    used = machine(gpu(0, used=0.75, free_mib=5000), gpu(1), mem_mib=23_000)
    held = [HeldSlot(Needs(reserves_gpu=False), 0)]
    assert beside(used, held).mem_mib == 23_000
    assert beside(used, held).gpus[0] == gpu(0, used=0.75, free_mib=5000)


def test_the_answer_of_the_daemon_is_read() -> None:
    card = {"index": 1, "name": "x", "mem_total_mib": 6000, "mem_free_mib": 5000, "utilisation": 0.4}
    answer = {"cpus": 8, "free_cores": 6.25, "mem_total_mib": 100, "mem_free_mib": 90, "gpus": [card]}
    free = read_free(answer)
    assert free.cores == Fraction("6.25")
    assert free.gpus == (FreeGpu(1, Fraction(5000), Fraction("0.4"), Fraction(6000)),)
    with pytest.raises(Unreachable):
        read_free({**answer, "free_cores": "many"})


def test_a_gpu_whose_driver_knows_no_numbers_has_no_free_memory() -> None:
    card = {"index": 0, "name": "part", "mem_total_mib": None, "mem_free_mib": None, "utilisation": None}
    answer = {"cpus": 8, "free_cores": 8.0, "mem_total_mib": 9000, "mem_free_mib": 9000, "gpus": [card]}
    assert slots_of(read_free(answer), Needs()).limit.startswith("GPU memory")
