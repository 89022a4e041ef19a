"""What others use of a machine: who counts as others, and that small changes change nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import HandClock, a_capacity

from grassq.core.messages import Hello
from grassq.core.model import WorkerInfo
from grassq.core.resources.amounts import ONE
from grassq.core.worker_checks import checked
from grassq.machines.measure.gpu_probe import GpuProbe, GpuProcess, GpuReport
from grassq.machines.measure.others_use import (
    CALM_LOOKS,
    CONTEXT_MIB,
    CORES_LOOKS,
    CORES_TOLERATED,
    FAULT_PAUSE_MAX_S,
    MachineWatch,
    OthersUse,
    others_use,
)
from grassq.machines.measure.probe import MachineProbe
from grassq.worker.machine import Detected

TOTAL = 40_000
IDLE = GpuProbe(0, "GPU-a", "A100", TOTAL, 3, 0)
HUNG = GpuReport(fault="nvidia-smi does not end: the driver hangs")


def a_probe(*gpus: GpuProbe, used: int = 1000, own: int = 0, report: GpuReport | None = None) -> MachineProbe:
    return MachineProbe(
        boot="b",
        uptime_s=1.0,
        clock=None,
        cpus=4,
        cores=4,
        samples=(),
        mem_total_mib=64_000,
        mem_free_mib=64_000 - used,
        own_mib=own,
        gpus=report or GpuReport(gpus),
    )


def in_use(*looks: GpuProbe) -> bool:
    """Look at one card again and again; tell whether it counts as used by others in the end."""
    use = OthersUse()
    for gpu in looks:
        use = others_use(a_probe(gpu), [0], use)
    return 0 in use.busy


def test_a_card_without_programs_is_free() -> None:
    assert not in_use(IDLE)
    assert not in_use(replace(IDLE, used_mib=CONTEXT_MIB - 1, utilisation=100)), "a driver that has just woken up"
    assert not in_use(replace(IDLE, total_mib=None, used_mib=None, utilisation=None))


def test_a_card_is_in_use_by_the_memory_or_the_work_of_others() -> None:
    assert in_use(replace(IDLE, used_mib=5000))
    assert in_use(replace(IDLE, used_mib=300, utilisation=90))
    assert in_use(replace(IDLE, used_mib=None, utilisation=90))
    assert in_use(replace(IDLE, used_mib=300, processes=(GpuProcess(7, None, is_own=False),)))
    assert in_use(replace(IDLE, used_mib=5000, processes=(GpuProcess(7, 4900, is_own=False),)))


def test_what_our_own_jobs_use_is_not_others() -> None:
    ours = GpuProcess(7, 30_000, is_own=True)
    assert not in_use(replace(IDLE, used_mib=30_200, utilisation=100, processes=(ours,), is_own=True))
    assert not in_use(replace(IDLE, used_mib=30_200, utilisation=100, is_own=True)), "the driver lists no process"
    unknown = replace(ours, mib=0)
    assert not in_use(replace(IDLE, used_mib=30_200, utilisation=100, processes=(unknown,), is_own=True))
    neighbour = GpuProcess(8, 9000, is_own=False)
    assert in_use(replace(IDLE, used_mib=39_000, processes=(ours, neighbour), is_own=True))


def test_a_card_is_free_only_after_others_have_left_it_for_some_looks() -> None:
    busy = replace(IDLE, used_mib=20_000)
    assert in_use(busy, *[IDLE] * (CALM_LOOKS - 1))
    assert not in_use(busy, *[IDLE] * CALM_LOOKS)
    pause = replace(IDLE, used_mib=3500)
    assert in_use(busy, *[pause] * 10), "neither busy nor calm: as before"
    assert not in_use(*[pause] * 10)
    assert in_use(busy, *[IDLE, IDLE, busy], IDLE)


def test_a_card_that_is_not_listed_any_more_counts_as_used() -> None:
    assert others_use(a_probe(), [0, 1], OthersUse()).busy == {0: 0, 1: 0}


def test_memory_of_a_card_that_others_hardly_use_is_missing_there() -> None:
    use = others_use(a_probe(replace(IDLE, used_mib=1000)), [0], OthersUse())
    assert use.allocation(a_capacity(gpu={"0": {"vram": TOTAL}}, mem=1))["vram"] == {"0": 1600 * ONE}


def test_a_driver_that_fails_once_changes_nothing_and_then_its_cards_count_as_used() -> None:
    once = others_use(a_probe(report=HUNG), [0, 1], OthersUse())
    assert once.busy == {}
    twice = others_use(a_probe(report=HUNG), [0, 1], once)
    assert twice.busy == {0: 0, 1: 0}
    assert others_use(a_probe(IDLE, replace(IDLE, index=1)), [0, 1], twice).faults == 0


def cpus_used(*looks: float, cpus: int = 64) -> int:
    """Look at the processors of a machine with 64 again and again; return how many count as used by others."""
    use = OthersUse()
    for cores in looks:
        use = others_use(replace(a_probe(), cores=64, cpus=cpus, others_cores=cores), [], use)
    return use.cpus


def test_processors_that_others_keep_busy_count_but_for_a_few() -> None:
    busy = [20.5] * CORES_LOOKS
    assert cpus_used(*busy) == 20 - CORES_TOLERATED
    assert cpus_used(*busy[1:]) == 0, "too few looks to know"
    assert cpus_used(*[CORES_TOLERATED + 0.9] * CORES_LOOKS) == 0
    assert cpus_used(*busy, *[0.0] * (CORES_LOOKS - 1)) == 18
    assert cpus_used(*busy, *[0.0] * CORES_LOOKS) == 0
    assert cpus_used(*[30.0] * CORES_LOOKS, cpus=40) == 6 - CORES_TOLERATED, "24 of them are none that jobs may use"
    use = OthersUse(cpus=18)
    assert use.allocation(a_capacity(cpu=64)) == {"cpu": 18 * ONE}


@given(st.floats(0, 60), st.lists(st.floats(0, 4), min_size=CORES_LOOKS, max_size=20))
def test_processors_that_count_stay_between_what_the_last_looks_saw(start: float, noise: list[float]) -> None:
    looks = [start + change for change in noise]
    least, most = (max(0, int(found) - CORES_TOLERATED) for found in (min(looks), max(looks[-CORES_LOOKS:])))
    assert least <= cpus_used(*looks) <= most


amounts = st.integers(0, 64_000)


@given(st.lists(amounts, min_size=1, max_size=20), amounts)
def test_the_memory_of_others_is_never_less_than_measured_and_little_more(seen: list[int], own: int) -> None:
    use = OthersUse()
    for used in seen:
        use = others_use(a_probe(used=used, own=own), [], use)
        measured = max(0, used - own)
        assert measured <= use.mem_mib <= measured + 3 * 64_000 // 50


@given(amounts, st.lists(st.integers(-300, 300), min_size=2, max_size=20))
def test_memory_that_goes_up_and_down_a_little_changes_the_amount_once_at_most(start: int, noise: list[int]) -> None:
    use, seen = OthersUse(), []
    for change in noise:
        use = others_use(a_probe(used=min(64_000, max(0, start + change))), [], use)
        seen.append(use.mem_mib)
    # It only grows, by one step at most: a smaller use within the noise is the use from before.
    assert (seen == sorted(seen) and len(set(seen)) <= 3) or start + min(noise) <= 0


cards = st.builds(
    GpuProbe,
    st.integers(0, 255),
    st.just("u"),
    st.just("n"),
    st.none() | st.integers(1, 10**9),
    st.none() | st.integers(0, 10**9),
    st.none() | st.integers(0, 100),
    st.booleans(),
    st.booleans(),
    st.lists(
        st.builds(GpuProcess, st.integers(0, 99), st.none() | st.integers(0, 10**9), st.booleans()), max_size=3
    ).map(tuple),
    st.booleans(),
)
reports = st.none() | st.builds(GpuReport, st.lists(cards, max_size=4, unique_by=lambda gpu: gpu.index).map(tuple))


@given(st.lists(st.tuples(reports | st.just(HUNG), amounts, amounts), min_size=1, max_size=8))
def test_whatever_a_machine_reports_the_broker_takes_what_its_worker_says(
    looks: list[tuple[GpuReport | None, int, int]],
) -> None:
    left = iter(looks)

    def ask(*, everything: bool, gpus: bool) -> MachineProbe:
        report, used, own = next(left)
        return replace(a_probe(used=used, own=own), gpus=report if gpus else None)

    clock = HandClock()
    watch = MachineWatch(ask, clock.mono)
    known: set[str] = set()
    for _ in looks:
        clock.now += FAULT_PAUSE_MAX_S
        told = watch.look()
        if told is not None:
            checked(Hello(WorkerInfo("w", "b", told.found, (), told.looked_for, used_by_others=told.used_by_others)))
            assert known <= told.found.keys(), "a resource never disappears"
            known = {*told.found}


# The watch.


class Far:
    """A machine that answers as it is told, and how it was asked."""

    def __init__(self, *gpus: GpuProbe) -> None:
        self.clock = HandClock()
        self.report: GpuReport = GpuReport(gpus)
        self.asked: list[tuple[bool, bool]] = []
        self.watch = MachineWatch(self.ask, self.clock.mono)

    def ask(self, *, everything: bool, gpus: bool) -> MachineProbe:
        self.asked.append((everything, gpus))
        return replace(a_probe(), gpus=self.report if gpus else None)

    def look(self) -> Detected | None:
        self.clock.now += 10.0
        return self.watch.look()


def test_a_watch_tells_what_the_machine_has_and_then_only_changes() -> None:
    far = Far(IDLE)
    told = far.look()
    assert told is not None and told.looked_for == frozenset()
    assert told.found == a_capacity(cpu=4, mem=64_000, gpu={"0": {"vram": TOTAL}})
    assert told.used_by_others == {"mem": 1280 * ONE}
    assert far.look() is None
    assert far.asked == [(True, True), (False, True)]
    far.report = GpuReport((replace(IDLE, used_mib=20_000),))
    told = far.look()
    assert told is not None and told.used_by_others == {"gpu": {"0": ONE}, "mem": 1280 * ONE}
    far.report = GpuReport((IDLE,))
    assert [far.look() for _ in range(CALM_LOOKS - 1)] == [None] * (CALM_LOOKS - 1)
    told = far.look()
    assert told is not None and told.used_by_others == {"mem": 1280 * ONE}


def test_a_driver_that_hangs_is_asked_less_and_less_often_and_its_cards_are_looked_for() -> None:
    far = Far()
    far.report = HUNG
    told = far.look()
    assert told is not None and (told.looked_for, told.found) == (frozenset({"gpu"}), a_capacity(cpu=4, mem=64_000))
    for _ in range(200):
        assert far.look() is None
    assert sum(gpus for _, gpus in far.asked) < 12
    far.report = GpuReport((IDLE,))
    while (told := far.look()) is None:
        assert len(far.asked) < 400
    assert (told.looked_for, "gpu" in told.found) == (frozenset(), True)


def test_without_a_driver_no_card_is_waited_for() -> None:
    far = Far()
    far.report = GpuReport(fault="nvidia-smi ends with code 9", has_no_driver=True)
    told = far.look()
    assert told is not None and told.looked_for == frozenset()


def test_cards_that_fell_off_the_bus_stay_known_and_count_as_used() -> None:
    far = Far(IDLE, replace(IDLE, index=1))
    first = far.look()
    far.report = GpuReport((replace(IDLE, index=1),))
    told = far.look()
    assert first is not None and told is not None
    assert told.found == first.found
    assert told.used_by_others["gpu"] == {"0": ONE}
