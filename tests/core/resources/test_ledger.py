"""What fits where: `fit` against a search through every possible choice of devices."""

from __future__ import annotations

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.builders import Amount, a_capacity, a_request
from tests.core.planner.boards import SIDES, Scene, choices, is_legal, quarters, requests, scenes

from grassq.core.resources.amounts import ONE, Allocation, Request, parse_request
from grassq.core.resources.capacity import bind, parse_limits
from grassq.core.resources.fit import FreeView, Shortage, devices_sum, fit, fits_ever, free_json, supply_json
from grassq.core.resources.ledger import Ledger, ReservedAmounts


@settings(max_examples=600)
@given(scenes(), st.sampled_from(SIDES), requests())
def test_a_request_fits_exactly_when_some_choice_of_devices_is_legal(scene: Scene, side: str, request: Request) -> None:
    found = fit(request, scene.place(side))
    possible = any(is_legal(choice, scene, side) for choice in choices(request, scene, side))
    event(f"fits: {possible}")
    if isinstance(found, Shortage):
        assert not possible
        assert found.needed > 0 and found.why
    else:
        assert found in choices(request, scene, side)
        assert is_legal(found, scene, side)


@settings(max_examples=300)
@given(scenes(units=True), st.sampled_from(SIDES), requests())
def test_whole_devices_are_those_of_least_memory_and_a_part_goes_where_least_is_left(
    scene: Scene, side: str, request: Request
) -> None:
    found = fit(request, scene.place(side))
    assume(not isinstance(found, Shortage))
    assert not isinstance(found, Shortage)
    wholes, part = divmod(dict(request).get("gpu", 0), ONE)
    vram = dict(request).get("vram", 0)
    usable = [d for d in scene.limits(side) if scene.memory(d) >= vram]
    chosen = sorted((d for d in usable if scene.empty(d)), key=scene.memory)[:wholes]
    expected = dict.fromkeys(chosen, ONE)
    if part:
        others = [d for d in usable if d not in chosen and scene.free(d, side) >= part]
        expected[min(others, key=lambda d: (scene.free(d, side), scene.empty(d), scene.memory(d)))] = part
    assert found.get("gpu", {}) == expected
    if vram and not expected:
        open_ = [d for d in usable if not scene.closed(d)]
        assert found["vram"] == {min(open_, key=scene.memory): vram}


@settings(max_examples=300)
@given(scenes(units=True, memory=False), st.sampled_from(SIDES), quarters)
def test_on_devices_worth_1_a_request_fits_exactly_when_it_is_at_most_f_plus_m(
    scene: Scene, side: str, amount: int
) -> None:
    ids = scene.limits(side)
    empty = sum(scene.empty(d) for d in ids)
    most = empty * ONE + max((scene.free(d, side) for d in ids if not scene.empty(d)), default=0)
    place = scene.place(side)
    assert devices_sum(place.devices_free("gpu"), in_units=True) == most
    found = fit((("gpu", amount),), place)
    assert isinstance(found, Shortage) == (amount > most)
    if isinstance(found, Shortage):
        assert (found.resource, found.needed, found.free) == ("gpu", amount, most)


@given(scenes(), st.sampled_from(SIDES), requests())
def test_what_fits_now_fits_an_empty_machine_too(scene: Scene, side: str, request: Request) -> None:
    if fits_ever(request, scene.machine, scene.offers[side]) is not None:
        assert isinstance(fit(request, scene.place(side)), Shortage)


@given(scenes(kept=False), st.sampled_from(SIDES))
def test_taking_and_giving_back_leaves_a_ledger_as_it_was(scene: Scene, side: str) -> None:
    place = scene.place(side)
    before = used(place.machine)
    copy = place.machine.copy()
    for _, held in scene.live:
        copy.give(held)
    assert used(copy) == used(Ledger(scene.machine))
    assert used(place.machine) == before, "a copy is a ledger of its own"


def used(ledger: Ledger) -> tuple[dict[str, int], dict[tuple[str, str], object]]:
    loads = {(n, d): x for n, group in ledger.loads.items() for d, x in group.items() if (x.used, x.holders) != (0, 0)}
    return {name: amount for name, amount in ledger.pools.items() if amount}, dict(loads)


def start(ledger: Ledger, **amounts: Amount) -> Allocation | Shortage:
    """Take what a job with this request would get, if anything."""
    found = fit(a_request(**amounts), FreeView(ledger, Ledger({})))
    if not isinstance(found, Shortage):
        ledger.take(found)
    return found


def short(found: Allocation | Shortage) -> tuple[str, float, float]:
    assert isinstance(found, Shortage), found
    return found.resource, found.needed / ONE, found.free / ONE


def test_n_and_a_half_devices_are_n_whole_ones_and_half_of_another() -> None:
    ledger = Ledger(a_capacity(gpu=4))
    assert start(ledger, gpu=2.5) == {"gpu": {"0": ONE, "1": ONE, "2": ONE // 2}}
    assert start(ledger, gpu=1.5) == {"gpu": {"3": ONE, "2": ONE // 2}}
    assert short(start(ledger, gpu=0.1)) == ("gpu", 0.1, 0.0)


def test_a_part_goes_to_the_fullest_device_that_still_fits_so_whole_ones_stay_free() -> None:
    ledger = Ledger(a_capacity(gpu=3))
    start(ledger, gpu=0.3)
    ledger.take({"gpu": {"1": 600_000}})
    assert start(ledger, gpu=0.4) == {"gpu": {"1": 400_000}}
    assert start(ledger, gpu=0.4) == {"gpu": {"0": 400_000}}
    assert start(ledger, gpu=1) == {"gpu": {"2": ONE}}


def test_where_worths_differ_the_whole_amount_comes_from_one_device() -> None:
    ledger = Ledger(a_capacity(tape={"left": 3, "right": 2}))
    assert start(ledger, tape=2) == {"tape": {"right": 2 * ONE}}
    assert start(ledger, tape=2.5) == {"tape": {"left": 2_500_000}}
    assert short(start(ledger, tape=1)) == ("tape", 1.0, 0.5)
    assert short(start(Ledger(a_capacity(tape={"left": 3, "right": 2})), tape=4)) == ("tape", 4.0, 3.0)


def test_how_a_request_splits_does_not_depend_on_what_is_kept_for_a_head() -> None:
    machine = Ledger(a_capacity(gpu={"0": 1, "1": 1, "2": 2}))
    place = FreeView(machine, Ledger({}), ReservedAmounts({"gpu": {"2": 2 * ONE}}))
    assert isinstance(fit(a_request(gpu=2), place), Shortage)


def test_how_a_request_splits_does_not_depend_on_the_memory_that_is_left() -> None:
    ledger = Ledger(a_capacity(gpu={"0": {"vram": 8}, "1": {"vram": 8}, "2": {"vram": 4, "worth": 2}}))
    assert isinstance(start(ledger, gpu=2, vram=8), Shortage)


def test_vram_is_asked_of_every_device_the_job_gets() -> None:
    ledger = Ledger(a_capacity(gpu={"0": {"vram": 6}, "1": {"vram": 24}, "2": {"vram": 24}}))
    assert start(ledger, gpu=1.5, vram=16) == {
        "gpu": {"1": ONE, "2": ONE // 2},
        "vram": {"1": 16 * ONE, "2": 16 * ONE},
    }
    assert short(start(ledger, gpu=0.5, vram=9)) == ("vram", 9.0, 8.0)
    assert start(ledger, gpu=0.5, vram=8) == {"gpu": {"2": ONE // 2}, "vram": {"2": 8 * ONE}}


def test_vram_alone_takes_memory_of_one_device_and_no_gpu() -> None:
    ledger = Ledger(a_capacity(gpu={"0": {"vram": 24}, "1": {"vram": 8}}))
    assert start(ledger, vram=6) == {"vram": {"1": 6 * ONE}}
    assert start(ledger, vram=6) == {"vram": {"0": 6 * ONE}}
    assert start(ledger, gpu=0.9) == {"gpu": {"1": 900_000}}
    assert short(start(ledger, vram=20)) == ("vram", 20.0, 18.0)
    assert start(ledger, vram=18) == {"vram": {"0": 18 * ONE}}
    assert short(start(Ledger(a_capacity(cpu=4)), vram=1)) == ("vram", 1.0, 0.0)


def test_a_whole_device_is_one_nobody_else_holds_anything_of() -> None:
    ledger = Ledger(a_capacity(gpu={"0": {"vram": 24}}))
    memory = start(ledger, vram=1)
    assert not isinstance(memory, Shortage)
    assert isinstance(start(ledger, gpu=1), Shortage)
    ledger.give(memory)
    assert start(ledger, gpu=1) == {"gpu": {"0": ONE}}
    assert isinstance(start(ledger, vram=1), Shortage)


@pytest.mark.parametrize("worth", [1, 2, 0.5])
def test_all_of_a_device_is_taken_only_when_nobody_uses_its_memory(worth: float) -> None:
    ledger = Ledger(a_capacity(gpu={"0": {"vram": 24, "worth": worth}}))
    start(ledger, vram=1)
    assert isinstance(start(ledger, gpu=worth), Shortage)
    assert start(ledger, gpu=worth / 2) == {"gpu": {"0": int(worth * ONE / 2)}}


def test_two_queues_with_half_a_device_each_share_it() -> None:
    machine = Ledger(a_capacity(gpu=1))
    for _ in SIDES:
        place = FreeView(machine, Ledger(a_capacity(gpu={"0": 0.5})))
        found = fit(a_request(gpu=0.5), place)
        assert found == {"gpu": {"0": ONE // 2}}
        machine.take(found)


def test_two_queues_with_1_each_share_a_device_that_is_worth_2() -> None:
    machine = Ledger(a_capacity(tape={"left": 2}))
    for _ in SIDES:
        place = FreeView(machine, Ledger(a_capacity(tape={"left": 1})))
        found = fit(a_request(tape=1), place)
        assert found == {"tape": {"left": ONE}}
        machine.take(found)


def test_a_limit_of_the_other_kind_leaves_nothing() -> None:
    machine, pool = a_capacity(licence=2), a_capacity(licence={"pool": 5})
    request = a_request(licence=1)
    assert short(fit(request, FreeView(Ledger(machine), Ledger(pool)))) == ("licence", 1.0, 0.0)
    assert short(fit(request, FreeView(Ledger(pool), Ledger(machine)))) == ("licence", 1.0, 0.0)
    machine, pool = a_capacity(gpu={"0": {"vram": 8}}), a_capacity(gpu={"pool": 5})
    assert isinstance(fit(a_request(vram=1), FreeView(Ledger(machine), Ledger(pool))), Shortage)


def test_a_limit_above_the_machines_never_binds() -> None:
    place = FreeView(Ledger(a_capacity(cpu=4)), Ledger(a_capacity(cpu=100)))
    assert fit(a_request(cpu=4), place) == {"cpu": 4 * ONE}
    assert short(fit(a_request(cpu=5), place)) == ("cpu", 5.0, 4.0)


def test_what_a_place_has_not_at_all_never_fits() -> None:
    found = fits_ever(a_request(gpu=1), a_capacity(cpu=4), {})
    assert found == Shortage("gpu", ONE, 0, "there is no gpu here")
    assert fits_ever(a_request(cpu=4), a_capacity(cpu=4), {}) is None


def test_asking_for_nothing_fits_anywhere() -> None:
    assert fit((), FreeView(Ledger({}), Ledger({}))) == {}


def test_vram_of_gpus_that_are_a_pool_is_short() -> None:
    assert short(start(Ledger(a_capacity(gpu={"pool": 2})), gpu=1, vram=1)) == ("vram", 1.0, 0.0)


def test_what_is_kept_of_a_pool_for_another_queue_does_not_shrink_this_queues_limit() -> None:
    machine, offer = Ledger(a_capacity(cpu=20)), Ledger(a_capacity(cpu=8))
    assert FreeView(machine, offer, ReservedAmounts(pools={"cpu": 16 * ONE})).pool_free("cpu") == 4 * ONE
    assert (
        FreeView(machine, offer, ReservedAmounts(pools={"cpu": 6 * ONE}, pool_limits={"cpu": 6 * ONE})).pool_free("cpu")
        == 2 * ONE
    )


def test_rooms_and_capacities_are_shown_as_plain_data() -> None:
    capacity = a_capacity(gpu=2, cpu=4)
    ledger = Ledger(capacity)
    start(ledger, gpu=0.5, cpu=1)
    assert supply_json(capacity) == {"gpu": {"0": 1.0, "1": 1.0}, "cpu": 4.0}
    assert free_json(FreeView(ledger, ledger), capacity) == {"gpu": {"0": 0.5, "1": 1.0}, "cpu": 3.0}


def test_devices_that_are_gone_still_count_as_held() -> None:
    ledger = Ledger({})
    ledger.take({"gpu": {"7": ONE}, "cpu": ONE})
    assert ledger.loads["gpu"]["7"].wholes == 1
    ledger = Ledger(a_capacity(gpu=1))
    ledger.take({"gpu": {"7": ONE}})
    assert ledger.loads["gpu"]["7"].wholes == 1
    assert fit(a_request(gpu=1), FreeView(ledger, Ledger(a_capacity(gpu=[0, 7])))) == {"gpu": {"0": ONE}}


def test_sizes_and_counts_of_the_users_spelling_reach_the_room() -> None:
    machine, limits = a_capacity(mem="16G"), parse_limits({"mem": "8G"})
    capacity = {name: bind(name, limit, machine[name]) for name, limit in limits.items()}
    assert fits_ever(parse_request({"mem": "8G"}), capacity, {}) is None
    assert fits_ever(parse_request({"mem": "8193M"}), capacity, {}) is not None
